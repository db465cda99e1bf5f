package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	_ "embed"
)

//go:embed testdata/standing_clock.c
var standingClockSource []byte

// clock is a wall clock that stands still. A library loaded before the
// server's own answers its questions for the time from 8 bytes of a file, which
// both sides have in memory.
type clock struct {
	nanos *int64
	env   []string
}

// newClock makes a clock that stands at the present.
func newClock(t testing.TB, dir string) *clock {
	t.Helper()
	path := filepath.Join(dir, "clock")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(8); err != nil {
		t.Fatal(err)
	}
	page, err := syscall.Mmap(int(file.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(page) })
	c := &clock{nanos: (*int64)(unsafe.Pointer(&page[0]))}
	c.set(time.Now().UnixNano())
	preload := "LD_PRELOAD="
	if runtime.GOOS == "darwin" {
		preload = "DYLD_INSERT_LIBRARIES="
	}
	c.env = []string{preload + compileStandingClock(t, dir), "STANDING_CLOCK=" + path}
	return c
}

func (c *clock) get() int64 {
	return atomic.LoadInt64(c.nanos)
}

func (c *clock) set(unixNanos int64) {
	atomic.StoreInt64(c.nanos, unixNanos)
}

// compileStandingClock returns the path of the library.
func compileStandingClock(t testing.TB, dir string) string {
	t.Helper()
	source := filepath.Join(dir, "standing_clock.c")
	if err := os.WriteFile(source, standingClockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "standing_clock.so")
	out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	if err != nil {
		t.Fatalf("cannot compile the standing clock, is there a C compiler (`apt-get install gcc libc6-dev`)? %v\n%s", err, out)
	}
	return library
}
