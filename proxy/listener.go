package proxy

import (
	"errors"
	"net"
	"sync"
	"time"

	"cellproxy/backend/poll"
)

// The pause after a failed accept doubles from the first to the second.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// listener is what redcon accepts connections from. An error of the real
// listener never reaches redcon, which would try again without a pause, or
// end and drop every client at once. Where there are event loops, it is they
// that serve the clients, and redcon is given those that need a goroutine.
type listener struct {
	net.Listener
	server  *Server
	loops   *poll.Loops   // or nil
	handed  chan net.Conn // from the loops
	closing chan struct{} // no more connections
	drained chan struct{} // redcon may end
	once    sync.Once
	task    sync.WaitGroup
}

func newListener(ln net.Listener, server *Server) *listener {
	l := &listener{
		Listener: ln, server: server, handed: make(chan net.Conn),
		closing: make(chan struct{}), drained: make(chan struct{}),
		loops: server.config.Loops,
	}
	if server.config.Backend.Clustered() {
		l.loops = nil // a command may always have to wait for a slot
	}
	return l
}

// Accept implements net.Listener. After stop it returns when the listener is
// released.
func (l *listener) Accept() (net.Conn, error) {
	if l.loops == nil {
		if conn, err := l.retry(); err == nil {
			return newClientConn(l.server, conn), nil
		}
	}
	select {
	case conn := <-l.handed:
		return conn, nil
	case <-l.drained:
		return nil, net.ErrClosed
	}
}

// start begins to accept for the loops.
func (l *listener) start() {
	if l.loops != nil {
		l.task.Go(l.feedLoops)
	}
}

// feedLoops gives the loops their clients until stop.
func (l *listener) feedLoops() {
	for {
		conn, err := l.retry()
		if err != nil {
			return
		}
		l.feed(conn)
	}
}

func (l *listener) feed(conn net.Conn) {
	s := newSocket(conn)
	if s == nil {
		l.handed <- newClientConn(l.server, conn)
		return
	}
	c := newClientConn(l.server, s)
	c.socket = s
	if l.server.admit(c) {
		c.loop = l.loops.Next()
		c.join()
	} else {
		c.Close()
	}
}

// retry accepts a connection, with a pause after each failure. The error says
// that the listener is closed.
func (l *listener) retry() (conn net.Conn, err error) {
	for pause := minAcceptPause; ; pause = min(2*pause, maxAcceptPause) {
		if conn, err = l.Listener.Accept(); err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		l.server.log.Warn("cannot accept a connection", "err", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-l.closing:
		}
	}
}

// stop ends accepting; release lets redcon's loop end.
func (l *listener) stop() {
	l.once.Do(func() {
		close(l.closing)
		l.Listener.Close()
	})
}

func (l *listener) release() {
	l.task.Wait()
	close(l.drained)
}
