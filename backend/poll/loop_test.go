//go:build linux

package poll

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair is a connected pair of sockets; what a loop reads from one goes to got.
type pair struct {
	loop     *Loop
	near     int
	far      *os.File
	got      chan string // "" when the far end is closed
	released chan bool
	extra    func() // called when something was read
}

func newPair(t *testing.T, loop *Loop) *pair {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{loop: loop, near: fds[0], far: os.NewFile(uintptr(fds[1]), "far"), got: make(chan string, 1000), released: make(chan bool, 1)}
	t.Cleanup(func() { p.far.Close(); syscall.Close(p.near) })
	return p
}

func (p *pair) Ready(hangup bool) {
	b := make([]byte, 4)
	for more := true; more; {
		n, err := syscall.Read(p.near, b)
		if err != nil {
			return
		}
		p.got <- string(b[:n])
		if n == 0 {
			p.loop.Remove(p.near, p)
			return
		}
		if p.extra != nil {
			p.extra()
		}
		more = hangup || n == len(b)
	}
}

func (p *pair) Released() { p.released <- true }

func (p *pair) expect(t *testing.T, want string) {
	t.Helper()
	var got string
	for len(got) < len(want) || want == "" {
		select {
		case part := <-p.got:
			if got += part; part == "" && want == "" {
				return
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func newTestLoop(t *testing.T, direct bool) *Loop {
	t.Helper()
	l, err := newLoop(direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// TestLoopReads sees that nothing gets lost: neither what was there before the
// loop nor more than a handler reads at once, a hangup behind it, or what comes
// while the loop is at work, however it waits.
func TestLoopReads(t *testing.T) {
	for name, direct := range map[string]bool{"by Go's poller": false, "in epoll": true} {
		t.Run(name, func(t *testing.T) {
			l := newTestLoop(t, direct)
			p := newPair(t, l)
			p.far.WriteString("early")
			if err := l.Add(p.near, p); err != nil {
				t.Fatal(err)
			}
			p.expect(t, "early")
			p.far.WriteString("a")
			p.expect(t, "a")
			p.far.WriteString("longer than one read")
			p.expect(t, "longer than one read")
			p.far.WriteString("bye")
			p.far.Close()
			p.expect(t, "bye")
			p.expect(t, "")
		})
	}
}

// TestLoopServesMany has many more connections than one look finds speak at
// once, again and again.
func TestLoopServesMany(t *testing.T) {
	l := newTestLoop(t, true)
	pairs := make([]*pair, maxEvents+100)
	for i := range pairs {
		pairs[i] = newPair(t, l)
		if err := l.Add(pairs[i].near, pairs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		var all sync.WaitGroup
		for part := range 4 {
			all.Go(func() {
				for i := part; i < len(pairs); i += 4 {
					pairs[i].far.WriteString("x")
				}
			})
		}
		all.Wait()
		for _, p := range pairs {
			p.expect(t, "x")
		}
	}
}

// TestLaterRunsAfterHandlers sees that what handlers put off is done once they
// have had their turn, and once.
func TestLaterRunsAfterHandlers(t *testing.T) {
	l := newTestLoop(t, false)
	p := newPair(t, l)
	done := make(chan int, 10)
	read := 0
	p.extra = func() {
		read++
		l.Later(func() { done <- read })
	}
	p.far.WriteString("abcdefgh")
	if err := l.Add(p.near, p); err != nil {
		t.Fatal(err)
	}
	for range 2 { // 8 bytes are two reads
		if got := <-done; got != 2 {
			t.Errorf("ran after %d reads, want 2", got)
		}
	}
	p.far.WriteString("i")
	if got := <-done; got != 3 || len(done) > 0 {
		t.Errorf("ran after %d reads, and %d times more", got, len(done))
	}
}

// TestCloseReleases sees that a closed loop gives back what it had, takes
// nothing more, and has told of nothing that was removed.
func TestCloseReleases(t *testing.T) {
	for name, direct := range map[string]bool{"by Go's poller": false, "in epoll": true} {
		t.Run(name, func(t *testing.T) {
			l := newTestLoop(t, direct)
			kept, removed := newPair(t, l), newPair(t, l)
			for _, p := range []*pair{kept, removed} {
				if err := l.Add(p.near, p); err != nil {
					t.Fatal(err)
				}
			}
			kept.far.WriteString("x")
			kept.expect(t, "x") // the loop waits again
			l.Remove(removed.near, removed)
			l.Remove(kept.near, removed) // as if it had been kept's descriptor before
			removed.far.WriteString("x")
			l.Close()
			if !<-kept.released || len(removed.released) > 0 || len(removed.got) > 0 {
				t.Errorf("removed: released %d times, told %d times", len(removed.released), len(removed.got))
			}
			if err := l.Add(removed.near, removed); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Add after Close: %v", err)
			}
			l.Close()
		})
	}
}
