package proxy

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// socket is an accepted connection outside of Go's poller, which would wake for
// it too, so that a poll.Loop can read from it. For what the loop does not do,
// waiting with a deadline above all, it makes a net.Conn of itself when that is
// first needed.
type socket struct {
	fd      int
	local   net.Addr
	remote  net.Addr
	looping bool // Read does not wait; only the goroutine that reads knows

	mu       sync.Mutex
	shut     bool     // in both directions
	released bool     // fd is somebody else's by now
	conn     net.Conn // the same connection for Go's poller, or nil
	deadline time.Time
}

// newSocket takes a connection out of Go's poller, or returns nil and leaves it
// there if it has no descriptor of its own.
func newSocket(conn net.Conn) *socket {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{local: conn.LocalAddr(), remote: conn.RemoteAddr()}
	if controlErr := raw.Control(func(fd uintptr) { s.fd, err = duplicate(int(fd)) }); controlErr != nil || err != nil {
		return nil
	}
	conn.Close()
	return s
}

// duplicate returns another descriptor of the same socket.
func duplicate(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(fd)
	if err != nil {
		return -1, os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(fd)
	return fd, nil
}

// errAgain says that there is nothing to read now.
var errAgain = syscall.EAGAIN

// Read implements net.Conn. In a loop it returns errAgain instead of waiting.
func (s *socket) Read(p []byte) (int, error) {
	if !s.looping {
		return s.conn.Read(p)
	}
	for {
		n, err := syscall.Read(s.fd, p)
		switch {
		case n > 0:
			return n, nil
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		default:
			return 0, io.EOF
		}
	}
}

// Write implements net.Conn: it waits.
func (s *socket) Write(p []byte) (int, error) {
	conn, err := s.open()
	if err != nil {
		return 0, err
	}
	return conn.Write(p)
}

// open returns the net.Conn.
func (s *socket) open() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return s.conn, nil
	}
	if s.released {
		return nil, net.ErrClosed
	}
	fd, err := duplicate(s.fd)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	conn.SetReadDeadline(s.deadline)
	s.conn = conn
	return conn, nil
}

// Close implements net.Conn. It ends the connection; release lets go of the
// descriptor.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || s.released {
		return nil
	}
	s.shut = true
	if s.conn != nil {
		s.conn.Close()
	}
	return syscall.Shutdown(s.fd, syscall.SHUT_RDWR)
}

// CloseWrite tells the client that nothing more comes.
func (s *socket) CloseWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return net.ErrClosed
	}
	return syscall.Shutdown(s.fd, syscall.SHUT_WR)
}

// release closes the descriptor. Nobody may read any more.
func (s *socket) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	s.released = true
	if s.conn != nil {
		s.conn.Close()
	}
	syscall.Close(s.fd)
}

// LocalAddr implements net.Conn.
func (s *socket) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements net.Conn.
func (s *socket) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements net.Conn.
func (s *socket) SetDeadline(t time.Time) error {
	s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn. In a loop it is for later.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if s.conn == nil {
		return nil
	}
	return s.conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (s *socket) SetWriteDeadline(t time.Time) error {
	conn, err := s.open()
	if err != nil {
		return err
	}
	return conn.SetWriteDeadline(t)
}

// SyscallConn implements syscall.Conn, for writing without waiting.
func (s *socket) SyscallConn() (syscall.RawConn, error) { return (*rawSocket)(s), nil }

// rawSocket is a socket as a syscall.RawConn that never waits.
type rawSocket socket

func (s *rawSocket) call(f func(fd uintptr)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || s.released {
		return net.ErrClosed
	}
	f(uintptr(s.fd))
	return nil
}

// Control implements syscall.RawConn.
func (s *rawSocket) Control(f func(fd uintptr)) error { return s.call(f) }

// Read implements syscall.RawConn. It calls f once.
func (s *rawSocket) Read(f func(fd uintptr) bool) error {
	return s.call(func(fd uintptr) { f(fd) })
}

// Write implements syscall.RawConn. It calls f once.
func (s *rawSocket) Write(f func(fd uintptr) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || s.released {
		return net.ErrClosed
	}
	f(uintptr(s.fd))
	return nil
}
