package proxy

import (
	"io"
	"net"
	"testing"
	"time"
)

// quietConn is a connection on which nothing happens.
type quietConn struct{ net.Conn }

func (quietConn) Close() error { return nil }

// idleServer is a server with clients that do nothing.
func idleServer(clients int) *Server {
	s := &Server{conns: make(map[*clientConn]bool)}
	s.settings.Store(&Settings{IdleTimeout: time.Minute})
	for range clients {
		c := &clientConn{Conn: quietConn{}, guard: newGuard(nil), session: &session{server: s}}
		c.session.out.init(c.Conn, 1<<20, time.Minute)
		s.conns[c] = true
	}
	return s
}

// hasCut reports whether the server has cut off its only client.
func (s *Server) hasCut() bool {
	for c := range s.conns {
		return c.session.out.err != nil
	}
	return false
}

func TestCutIdle(t *testing.T) {
	begin := time.Now()
	for name, happens := range map[string]func(*clientConn){
		"a read":              func(c *clientConn) { c.guard.progress(1, nil) },
		"a write":             func(c *clientConn) { c.session.out.written(nil) },
		"a command under way": func(c *clientConn) { c.session.out.owed++ },
		"an unread reply":     func(c *clientConn) { c.session.out.buf = []byte("+OK\r\n") },
		"a subscription":      func(c *clientConn) { c.session.out.listen(true) },
	} {
		s := idleServer(1)
		s.cutIdle(begin)
		for c := range s.conns {
			happens(c)
		}
		if s.cutIdle(begin.Add(61 * time.Second)); s.hasCut() {
			t.Errorf("cut off in spite of %s", name)
		}
	}
	s := idleServer(1)
	for c := range s.conns {
		c.guard.progress(0, io.EOF)
	}
	s.cutIdle(begin)
	if s.cutIdle(begin.Add(60 * time.Second)); s.hasCut() {
		t.Error("cut off too early")
	}
	if s.cutIdle(begin.Add(61 * time.Second)); !s.hasCut() {
		t.Error("not cut off")
	}
}

// BenchmarkCutIdle looks at 10,000 idle clients once.
func BenchmarkCutIdle(b *testing.B) {
	s := idleServer(10_000)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		s.cutIdle(now)
	}
}
