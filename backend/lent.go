package backend

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"cellproxy/backend/poll"
)

// maxNow is as much as a loop does not write upstream itself, so that it has
// nothing to do with large requests.
const maxNow = largeRequest

// errWouldWait says that what comes next can't be delivered by a loop.
var errWouldWait = errors.New("delivering would wait")

// lent is what a link needs to have a loop read and write its connection. The
// loop does what never waits: all but repairing and writing to a full socket.
// For the rest the link has goroutines of its own.
type lent struct {
	loop *poll.Loop
	fd   int
	raw  syscall.RawConn
	back chan struct{} // the loop does not read any more

	mu      sync.Mutex // held while the loop delivers
	reading bool       // by the loop
	over    bool       // the loop has been closed

	// Arguments and results of read and write, which are kept so that they cost
	// no allocation.
	b     []byte
	n     int
	err   error
	read  func(fd uintptr) bool
	out   []byte
	sent  int
	write func(fd uintptr) bool
}

// newLent returns nil if there is no loop or conn has no descriptor of its own.
func newLent(loop *poll.Loop, conn net.Conn) *lent {
	if loop == nil {
		return nil
	}
	var raw syscall.RawConn
	var err error
	switch conn := conn.(type) {
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		raw, err = conn.SyscallConn()
	default:
		return nil
	}
	t := &lent{loop: loop, raw: raw, back: make(chan struct{}, 1)}
	if err != nil || raw.Control(func(fd uintptr) { t.fd = int(fd) }) != nil {
		return nil
	}
	t.read = func(fd uintptr) bool {
		t.n, t.err = ignoringInterrupts(syscall.Read, int(fd), t.b)
		return true
	}
	t.write = func(fd uintptr) bool {
		t.sent, _ = ignoringInterrupts(syscall.Write, int(fd), t.out)
		return true
	}
	return t
}

func ignoringInterrupts(call func(int, []byte) (int, error), fd int, b []byte) (n int, err error) {
	for {
		if n, err = call(fd, b); err != syscall.EINTR {
			return n, err
		}
	}
}

// lend has the loop read until that would wait or the link has ended. It
// reports false, at once, if there is no loop.
func (l *link) lend() bool {
	t := l.lent
	if t == nil || !l.handToLoop() {
		return false
	}
	select {
	case <-t.back:
	case <-l.gone:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading = false
	return true
}

func (l *link) handToLoop() bool {
	t := l.lent
	t.mu.Lock()
	defer t.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.over || l.err != nil || l.have > 0 {
		return false
	}
	t.reading = t.loop.Add(t.fd, l) == nil
	return t.reading
}

// isLent reports whether it is the loop that delivers.
func (l *link) isLent() bool {
	return l.lent != nil && l.lent.reading
}

// Ready implements poll.Handler.
func (l *link) Ready(hangup bool) {
	t := l.lent
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reading {
		return
	}
	err := l.readReady(hangup)
	if err == nil {
		return
	}
	t.reading = false
	t.loop.Remove(t.fd, l) // unless it has failed already
	if err == errWouldWait {
		t.back <- struct{}{}
	} else {
		l.fail(err)
	}
}

// readReady delivers all that has come.
func (l *link) readReady(hangup bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	for more := true; more; {
		n, err := l.readNow()
		if err == syscall.EAGAIN {
			return nil
		}
		if err != nil {
			return err
		}
		more = hangup || l.have+n == len(l.buf)
		if err := l.deliverBuffered(n); err != nil {
			return err
		}
	}
	return nil
}

// readNow reads without waiting.
func (l *link) readNow() (int, error) {
	t := l.lent
	t.b = l.buf[l.have:]
	if err := t.raw.Read(t.read); err != nil {
		return 0, err
	}
	if t.n == 0 && t.err == nil {
		return 0, io.EOF
	}
	return t.n, t.err
}

// Released implements poll.Handler.
func (l *link) Released() {
	t := l.lent
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.reading {
		t.reading = false
		t.back <- struct{}{}
	}
}

// writeNow writes what was submitted in a loop, as far as the socket takes it at
// once. The rest, a lot, and what comes meanwhile are left to the writer.
func (l *link) writeNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.writing || len(l.unsent) > 0 || l.send.size == 0 {
		return
	}
	if l.lent == nil || l.send.size >= maxNow {
		l.writable.Signal()
		return
	}
	l.writing = true
	small, _ := l.take() // nothing large
	l.mu.Unlock()
	l.lent.out, l.lent.sent = small, 0
	err := l.lent.raw.Write(l.lent.write) // its own error will come again
	l.mu.Lock()
	l.writing = false
	if err != nil {
		l.failLocked(err)
	}
	if l.unsent = small[max(l.lent.sent, 0):]; len(l.unsent) > 0 || l.send.size > 0 {
		l.writable.Signal()
	}
}
