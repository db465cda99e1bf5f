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

// listener is what redcon accepts connections from. An error of a real listener
// never reaches redcon, which would try again without a pause, or end and drop
// every client at once. Where there are event loops, it is they that serve the
// clients, and redcon is given those that need a goroutine.
type listener struct {
	server  *Server
	sources []source
	loops   *poll.Loops   // or nil
	handed  chan net.Conn // to redcon
	closing chan struct{} // no more connections
	drained chan struct{} // redcon may end
	once    sync.Once
	task    sync.WaitGroup
}

// source is a socket that is listened on.
type source struct {
	net.Listener
	endpoint Endpoint
}

func newListener(server *Server) *listener {
	l := &listener{
		server: server, handed: make(chan net.Conn),
		closing: make(chan struct{}), drained: make(chan struct{}),
		loops: server.config.Loops,
	}
	if server.config.Backend.Clustered() {
		l.loops = nil // a command may always have to wait for a slot
	}
	return l
}

// Accept implements net.Listener. It returns an error when the listener is
// released.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.handed:
		return conn, nil
	case <-l.drained:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: it is that of the first socket.
func (l *listener) Addr() net.Addr { return l.sources[0].Addr() }

// Close implements net.Listener for redcon, which does so when it has ended.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closing)
		for _, s := range l.sources {
			s.Close()
		}
	})
	return nil
}

// start begins to accept.
func (l *listener) start() {
	for _, s := range l.sources {
		l.task.Go(func() { l.acceptFrom(s) })
	}
}

// acceptFrom admits the clients of one socket until stop.
func (l *listener) acceptFrom(s source) {
	for {
		conn, err := l.retry(s)
		if err != nil {
			return
		}
		l.feed(conn, s.endpoint.TLS)
	}
}

// feed has a client served, by a loop if that can be.
func (l *listener) feed(conn net.Conn, secure bool) {
	c := l.newConn(conn, secure)
	switch {
	case !l.server.admit(c):
		c.Close()
	case c.socket != nil:
		c.loop = l.loops.Next()
		c.join()
	default:
		l.handed <- c
	}
}

func (l *listener) newConn(conn net.Conn, secure bool) *clientConn {
	if secure {
		t := newTLSConn(conn, l.server.settings.Load())
		c := newClientConn(l.server, t)
		c.tls = t
		return c
	}
	if l.loops != nil {
		if s := newSocket(conn); s != nil {
			c := newClientConn(l.server, s)
			c.socket = s
			return c
		}
	}
	return newClientConn(l.server, conn)
}

// retry accepts a connection, with a pause after each failure. The error says
// that the socket is closed.
func (l *listener) retry(s source) (conn net.Conn, err error) {
	for pause := minAcceptPause; ; pause = min(2*pause, maxAcceptPause) {
		if conn, err = s.Accept(); err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		l.server.log.Warn("cannot accept a connection", "addr", s.endpoint.String(), "err", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-l.closing:
		}
	}
}

// stop ends accepting, and returns when all that was accepted is admitted or
// refused. redcon must still be taking connections.
func (l *listener) stop() {
	l.Close()
	l.task.Wait()
}

// release lets redcon end.
func (l *listener) release() { close(l.drained) }
