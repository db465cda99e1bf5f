package poll

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxEvents is how many connections one look may find ready.
const maxEvents = 512

// directMillis is for how long a loop waits for the next connection by itself
// when there was just one.
const directMillis = 100

// Loop is one goroutine that reads from many connections. It waits with epoll,
// whose descriptor Go's own poller waits for, so that an idle loop holds no
// thread, and other goroutines can run while it waits. That costs two more
// system calls and a look at everything else that Go may have to do; a lone
// connection that asks and waits, asks and waits, would be slowed down by that.
// For it the loop waits in epoll itself, unless others than its handlers are at
// work, who tell by Yield. Make it with New.
type Loop struct {
	poller *os.File
	raw    syscall.RawConn
	fd     int
	task   sync.WaitGroup
	direct bool // there are processors for others while the loop waits in epoll
	yield  atomic.Bool

	mu       sync.Mutex
	handlers map[int32]Handler
	closed   bool

	// Used by the loop's goroutine alone.
	events [maxEvents]syscall.EpollEvent
	ready  []readiness
	later  []func()
	buffer [64 << 10]byte
}

// readiness is a connection that has been found ready.
type readiness struct {
	handler Handler
	hangup  bool
}

// New starts a loop.
func New() (*Loop, error) { return newLoop(runtime.GOMAXPROCS(0) > 1) }

func newLoop(direct bool) (*Loop, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	l := &Loop{poller: os.NewFile(uintptr(fd), "epoll"), fd: fd, handlers: make(map[int32]Handler), direct: direct}
	if l.raw, err = l.poller.SyscallConn(); err == nil {
		err = l.poller.SetReadDeadline(time.Time{}) // fails where Go can't poll it
	}
	if err != nil {
		l.poller.Close()
		return nil, err
	}
	l.task.Go(l.run)
	return l, nil
}

// Add has the loop tell h when there is something to read from the descriptor
// fd, which must not wait. If there is already, it is told at once. The error
// says that the loop does not; it is net.ErrClosed after Close.
func (l *Loop) Add(fd int, h Handler) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	event := syscall.EpollEvent{
		Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | 1<<31, // EPOLLET, which syscall has as a negative number
		Fd:     int32(fd),
	}
	if err := syscall.EpollCtl(l.fd, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	l.handlers[int32(fd)] = h
	return nil
}

// Remove has the loop forget the descriptor, if h is what it tells. It must not
// be closed before. The handler may still be told once, unless Remove is called
// by a handler.
func (l *Loop) Remove(fd int, h Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handlers[int32(fd)] == h {
		delete(l.handlers, int32(fd))
		syscall.EpollCtl(l.fd, syscall.EPOLL_CTL_DEL, fd, nil)
	}
}

// Later runs f when all that is ready has been read. Only handlers may call it.
func (l *Loop) Later(f func()) {
	l.later = append(l.later, f)
}

// Yield tells that other goroutines work on what the loop's handlers deliver, so
// that the loop is not to keep a processor from them while it waits next.
func (l *Loop) Yield() {
	if !l.yield.Load() {
		l.yield.Store(true)
	}
}

// Scratch is memory that a handler may use until it returns.
func (l *Loop) Scratch() []byte { return l.buffer[:] }

// Close has the loop release what it still reads from, and ends it.
func (l *Loop) Close() {
	l.mu.Lock()
	l.closed = true
	l.poller.SetReadDeadline(time.Unix(1, 0))
	l.mu.Unlock()
	l.task.Wait()
	l.poller.Close()
}

// run looks whenever Go's poller tells of something new. As a connection is
// told of once, when something comes, and then read until there is no more, one
// look is enough unless it found all it could.
func (l *Loop) run() {
	l.raw.Read(func(uintptr) bool {
		for timeout := 0; ; {
			switch found := l.look(timeout); {
			case found == maxEvents:
				timeout = 0
			case found == 1 && l.direct && !l.yield.Swap(false):
				timeout = directMillis
			default:
				return false
			}
		}
	})
	l.releaseAll()
}

// look tells the connections that are ready, once there are any or timeout
// milliseconds have passed, and returns how many it found.
func (l *Loop) look(timeout int) (found int) {
	found, err := syscall.EpollWait(l.fd, l.events[:], timeout)
	if err == syscall.EINTR {
		return maxEvents // there may be
	}
	if found <= 0 {
		return 0
	}
	l.mu.Lock()
	for i := range l.events[:found] {
		event := &l.events[i]
		if h := l.handlers[event.Fd]; h != nil {
			hangup := event.Events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0
			l.ready = append(l.ready, readiness{h, hangup})
		}
	}
	l.mu.Unlock()
	for _, r := range l.ready {
		r.handler.Ready(r.hangup)
	}
	for _, f := range l.later {
		f()
	}
	clear(l.ready)
	clear(l.later)
	l.ready, l.later = l.ready[:0], l.later[:0]
	return found
}

// releaseAll releases what is still there.
func (l *Loop) releaseAll() {
	l.mu.Lock()
	handlers := l.handlers
	l.handlers = nil
	for fd := range handlers {
		syscall.EpollCtl(l.fd, syscall.EPOLL_CTL_DEL, int(fd), nil)
	}
	l.mu.Unlock()
	for _, h := range handlers {
		h.Released()
	}
}
