package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
	"cellproxy/backend/poll"
	"cellproxy/test/redistest"
)

// startServer serves from a Redis until the test ends.
func startServer(t testing.TB, prepare func(*Server)) *Server {
	t.Helper()
	return startServerBefore(t, backend.Config{URL: redistest.Start(t, redistest.Options{}).URL()}, prepare)
}

// startServerBefore serves from an upstream until the test ends.
func startServerBefore(t testing.TB, upstream backend.Config, prepare func(*Server)) *Server {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	loops, err := poll.Start()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	upstream.Loops, upstream.Logger = loops, quiet
	store, err := backend.New(upstream)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Backend: store, Loops: loops, Logger: quiet})
	if prepare != nil {
		prepare(s)
	}
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		store.Close()
	})
	return s
}

// testClient is a connection to a server under test.
type testClient struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dialServer(t testing.TB, s *Server) *testClient {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	return &testClient{t: t, Conn: conn, r: bufio.NewReader(conn)}
}

// do sends a line and returns the line that comes back.
func (c *testClient) do(line string) string {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\r\n"); err != nil {
		return err.Error()
	}
	reply, err := c.r.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(reply)
}

func TestPanicEndsOneSessionOnly(t *testing.T) {
	s := startServer(t, func(s *Server) {
		s.settings.Load().routes["BOOM"] = route{run: func(*session, redcon.Command) { panic("boom") }}
	})
	other, victim := dialServer(t, s), dialServer(t, s)
	if got := other.do("PING") + victim.do("PING"); got != "+PONG+PONG" {
		t.Fatalf("got %q before the panic", got)
	}
	if got := victim.do("BOOM"); got != io.EOF.Error() {
		t.Errorf("got %q from the session that panicked, want its end", got)
	}
	if got := other.do("PING") + dialServer(t, s).do("PING"); got != "+PONG+PONG" {
		t.Errorf("got %q after the panic", got)
	}
}

func TestMaxClients(t *testing.T) {
	s := startServer(t, func(s *Server) { s.Change(Settings{MaxClients: 1}) })
	first := dialServer(t, s)
	if got := first.do("PING"); got != "+PONG" {
		t.Fatalf("got %q", got)
	}
	if got := dialServer(t, s).do("PING"); got != "-ERR max number of clients reached" {
		t.Errorf("got %q, want Redis's refusal", got)
	}
	first.Close()
	deadline := time.Now().Add(10 * time.Second)
	for dialServer(t, s).do("PING") != "+PONG" {
		if time.Now().After(deadline) {
			t.Fatal("nobody is let in after the first has gone")
		}
	}
}

// TestNoGoroutineStays opens sessions of every kind and counts goroutines after
// they have gone.
func TestNoGoroutineStays(t *testing.T) {
	s := startServer(t, nil)
	dialServer(t, s).do("PING")
	before := runtime.NumGoroutine()
	for _, last := range []string{"PING", "MULTI", "BLPOP nothing 0", "SUBSCRIBE c", "SELECT 3", "HELLO 3", "QUIT", "*x"} {
		c := dialServer(t, s)
		c.do("PING")
		io.WriteString(c, last+"\r\n")
		c.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		// The streams of other identities and the private connections made
		// in advance are kept for a while.
		s.config.Backend.CloseIdle()
		now := runtime.NumGoroutine()
		if now <= before {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}
