// Package proxy is the client side of cellproxy: it listens, guards the
// protocol, keeps a session for every client, and sends what they ask on to
// the backend. It knows no algorithm and no Redis client.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
	"cellproxy/backend/poll"
)

// Config is what a Server works with.
type Config struct {
	Settings
	// Backend is where commands go. Required. The server does not close it.
	Backend *backend.Backend
	// ListenFunc opens the listening socket. Default net.Listen.
	ListenFunc func(network, addr string) (net.Listener, error)
	// TopKeys keeps account of the keys that limiter commands are called with most.
	TopKeys bool
	// Version is that of the program.
	Version string
	// Loops read from clients where they can, as well as from the upstream. None:
	// goroutines do. Shutdown closes them.
	Loops *poll.Loops
	// Logger is told what clients can't be. Default slog.Default().
	Logger *slog.Logger
}

// Server serves RESP clients. Call Listen, then Serve; Addr is valid after Listen.
type Server struct {
	config   Config
	log      *slog.Logger
	clients  clients
	newcomer shown // of a session that has said nothing yet
	settings atomic.Pointer[Settings]
	counters counters
	began    time.Time

	mu       sync.Mutex
	listener *listener
	conns    map[*clientConn]bool
	draining bool
	empty    sync.Cond // conns has become empty
}

// New returns a server that does not listen yet.
func New(config Config) *Server {
	s := &Server{
		config: config, log: config.Logger, began: time.Now(),
		conns:    make(map[*clientConn]bool),
		clients:  newClients(),
		newcomer: shown{identity: config.Backend.Default()},
	}
	s.empty.L = &s.mu
	s.counters.init(config.TopKeys)
	s.Change(config.Settings)
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.config.ListenFunc == nil {
		s.config.ListenFunc = net.Listen
	}
	return s
}

// Listen opens a socket to listen on; see ParseEndpoint. Port 0 picks a free one.
// It may be called several times.
func (s *Server) Listen(addr string) error {
	endpoint, err := ParseEndpoint(addr)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	ln, err := s.config.ListenFunc(endpoint.Network, endpoint.Address)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	endpoint.Address = ln.Addr().String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		s.listener = newListener(s)
	}
	s.listener.sources = append(s.listener.sources, source{ln, endpoint})
	return nil
}

// Addr returns the address of the first socket that the server listens on.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener.Addr()
}

// Endpoints returns where the server listens.
func (s *Server) Endpoints() []Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var endpoints []Endpoint
	for _, source := range s.listener.sources {
		endpoints = append(endpoints, source.endpoint)
	}
	return endpoints
}

// Serve serves clients until Shutdown.
func (s *Server) Serve() error {
	ln, err := s.begin()
	if err != nil {
		return err
	}
	defer s.disconnectIdle()()
	return redcon.Serve(ln, s.handle, nil, nil)
}

// begin starts to accept, unless Shutdown came first.
func (s *Server) begin() (*listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil, errors.New("serve before listen")
	}
	if !s.draining {
		s.listener.start()
	}
	return s.listener, nil
}

// Shutdown stops accepting, lets every client have the replies to what it has
// sent, and closes. Clients that are not done when ctx ends are cut off, and
// ctx's error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	if !s.beginToDrain() {
		return nil
	}
	s.listener.stop()
	s.config.Loops.Close() // a goroutine can wait for the end, a loop can't
	stop := context.AfterFunc(ctx, s.cutOff)
	defer stop()
	s.mu.Lock()
	for len(s.conns) > 0 {
		s.empty.Wait()
	}
	s.mu.Unlock()
	s.listener.release()
	return ctx.Err()
}

// beginToDrain reports whether there is anything to shut down.
func (s *Server) beginToDrain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil || s.draining {
		return false
	}
	s.draining = true
	for c := range s.conns {
		c.drain()
	}
	return true
}

// cutOff ends the sessions that are left.
func (s *Server) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.session.out.cut()
	}
}

// admit decides whether a client may stay.
func (s *Server) admit(c *clientConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.conns) >= s.settings.Load().MaxClients
	s.counters.accepted.Add(1)
	s.conns[c] = true // until it is closed
	if full {
		s.counters.full.Add(1)
		c.refuse("-ERR max number of clients reached\r\n")
	}
	if s.draining {
		c.drain()
	}
	return !full
}

// forget is called when a connection has been closed.
func (s *Server) forget(c *clientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 {
		s.empty.Broadcast()
	}
}

// handle takes a batch of commands from redcon. A panic ends the session it
// happened in and no other.
func (s *Server) handle(conn redcon.Conn, first redcon.Command) {
	c := conn.NetConn().(*clientConn)
	defer func() {
		if p := recover(); p != nil {
			s.counters.panics.Add(1)
			s.log.Error("panic in a session", "panic", p, "stack", string(debug.Stack()))
			conn.Close()
		}
	}()
	if !c.session.serve(first, conn.ReadPipeline()) {
		conn.Close()
		return
	}
	if c.isCalm() {
		conn.Detach()
		c.join()
	}
}
