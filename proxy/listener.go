package proxy

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// The pause after a failed accept doubles from the first to the second.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// listener is what redcon accepts connections from. An error of the real
// listener never reaches redcon, which would try again without a pause, or
// end and drop every client at once.
type listener struct {
	net.Listener
	wrap    func(net.Conn) net.Conn
	log     *slog.Logger
	closing chan struct{} // no more connections
	drained chan struct{} // redcon may end
	once    sync.Once
}

func newListener(ln net.Listener, log *slog.Logger, wrap func(net.Conn) net.Conn) *listener {
	return &listener{
		Listener: ln, wrap: wrap, log: log,
		closing: make(chan struct{}), drained: make(chan struct{}),
	}
}

// Accept implements net.Listener. After close it returns when the listener is
// released.
func (l *listener) Accept() (net.Conn, error) {
	pause := minAcceptPause
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			return l.wrap(conn), nil
		}
		if errors.Is(err, net.ErrClosed) {
			<-l.drained
			return nil, net.ErrClosed
		}
		l.log.Warn("cannot accept a connection", "err", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-l.closing:
		}
		pause = min(2*pause, maxAcceptPause)
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
	close(l.drained)
}
