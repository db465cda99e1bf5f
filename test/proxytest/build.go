package proxytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is cellproxy's program file while Main runs.
var binary string

// Main builds cellproxy, runs the tests and removes what it has built. It is
// for a package's TestMain, and returns the exit code.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "cellproxy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "cellproxy")
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-o", binary}, buildFlags...)...)
	build.Args = append(build.Args, "cellproxy/cmd/cellproxy")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build cellproxy: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Command returns cellproxy with these arguments, not started.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if binary == "" {
		t.Fatal("proxytest: cellproxy is not built; call proxytest.Main from TestMain")
	}
	cmd := exec.Command(binary, args...)
	// The race detector would wait a second at exit for further races.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=20")
	return cmd
}
