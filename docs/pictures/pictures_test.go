package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellproxy/commands"
)

// TestPicturesAreUpToDate compares what is committed with what is drawn.
func TestPicturesAreUpToDate(t *testing.T) {
	page, err := os.ReadFile("../limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		want, err := p.draw()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", p.file))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what is drawn (%v): run `make pictures`", p.file, err)
		}
		if !strings.Contains(string(page), "]("+p.file+")") {
			t.Errorf("docs/limits.md does not show %s", p.file)
		}
		for lines := xml.NewDecoder(bytes.NewReader(want)); ; {
			if _, err := lines.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", p.file, err)
			}
		}
	}
}

// TestOverviewHasAllLimiters sees that a new limiter gets its lane.
func TestOverviewHasAllLimiters(t *testing.T) {
	for _, command := range commands.All() {
		if !slices.ContainsFunc(pictures[0].commands, func(line string) bool { return strings.HasPrefix(line, command.Name+" ") }) {
			t.Errorf("%s is not in %s", command.Name, pictures[0].file)
		}
	}
}

// TestDecide compares a few decisions that can be told without a model.
func TestDecide(t *testing.T) {
	for _, test := range []struct {
		command string
		want    []bool
	}{
		{"FW.ACQUIRE k 2 1000", []bool{true, true, false, false, true, true, false}},
		{"SW.ACQUIRE k 2 1000 1 EXACT", []bool{true, true, false, false, true, false, true}},
		{"CL.THROTTLE k 0 1 1", []bool{true, false, false, false, true, false, false}},
	} {
		decisions, err := decide(test.command, []int64{0, 500, 600, 999, 1000, 1400, 1500})
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range decisions {
			if d.admitted != test.want[i] {
				t.Errorf("%s: at %d ms admitted %v, want %v", test.command, d.at, d.admitted, test.want[i])
			}
		}
	}
}

func TestAdmittedWithin(t *testing.T) {
	decisions := []decision{{0, true}, {500, false}, {999, true}, {1000, true}, {2500, false}}
	if got, want := admittedWithin(1000, decisions), []int{1, 1, 2, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDrawAll writes all of them, as the command does.
func TestDrawAll(t *testing.T) {
	dir := t.TempDir()
	if err := drawAll(dir); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(dir + "/*.svg"); len(files) != len(pictures) || err != nil {
		t.Errorf("got %d pictures, %v, want %d", len(files), err, len(pictures))
	}
}
