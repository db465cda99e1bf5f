//go:build linux

package test

import (
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestOutOfDescriptors takes all file descriptors that cellproxy may have: those
// who are in are served, it does not try to accept the next one over and over,
// and does when there is room again.
func TestOutOfDescriptors(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	in := proxy.Dial(t)
	in.Do("SET", "k", "v")
	most := uint64(proxy.Files() + 10)
	if err := unix.Prlimit(proxy.Pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		t.Fatal(err)
	}
	var crowd []net.Conn
	for range 30 {
		conn, err := net.Dial("tcp", proxy.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		crowd = append(crowd, conn)
	}
	failures := func() int { return strings.Count(proxy.Output(), "cannot accept a connection") }
	await(t, "a connection that can't be accepted", func() bool { return failures() > 0 })
	began, before := time.Now(), failures()
	for time.Since(began) < 500*time.Millisecond {
		if got := in.Do("GET", "k"); got != "$1\r\nv\r\n" {
			t.Fatalf("GET of one who is in = %q", got)
		}
	}
	if tries := failures() - before; tries > 10 {
		t.Errorf("%d tries to accept in half a second", tries)
	}
	for _, conn := range crowd {
		conn.Close()
	}
	late, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if got := wire.NewConn(t, late).Do("GET", "k"); got != "$1\r\nv\r\n" {
		t.Errorf("GET when there is room again = %q", got)
	}
}
