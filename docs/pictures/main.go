// Pictures draws what the limiters admit, for docs/limits.md: the same requests
// for each, and what its model in package commands decides.
//
//	go run ./docs/pictures docs
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures directory")
		os.Exit(2)
	}
	if err := drawAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// drawAll writes every picture into a directory.
func drawAll(dir string) error {
	for _, p := range pictures {
		svg, err := p.draw()
		if err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.file), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}
