package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"cellproxy/test/certs"
)

// startSecure serves clients with TLS, and gives them so long for the handshake.
func startSecure(t *testing.T, patience time.Duration, maxClients int) (addr string, config *tls.Config) {
	t.Helper()
	authority := certs.New(t)
	pair := authority.Issue(t, "server")
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(s *Server) {
		s.Change(Settings{
			MaxClients: maxClients, HandshakeTimeout: patience,
			TLS: &tls.Config{Certificates: []tls.Certificate{certificate}},
		})
		if err := s.Listen("tls://127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	})
	return s.Endpoints()[0].Address, authority.Client(t)
}

// TestHandshakeTakesNotForever has clients that do not finish theirs: they take
// up room, but no longer than they may.
func TestHandshakeTakesNotForever(t *testing.T) {
	addr, config := startSecure(t, 300*time.Millisecond, 2)
	var silent []net.Conn
	for _, begin := range []string{"", "\x16\x03\x01\x02"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, begin)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		silent = append(silent, conn)
	}
	for _, conn := range silent {
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a client without a handshake: %v, want the end", err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := tls.Dial("tcp", addr, config)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no room after them: %v", err)
		}
	}
}

// TestTLSEndIsTold wants QUIT to end in order: not cut off, for all TLS knows.
func TestTLSEndIsTold(t *testing.T) {
	addr, config := startSecure(t, time.Minute, 10)
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(conn, "PING\r\nQUIT\r\n")
	got, err := io.ReadAll(conn)
	if want := "+PONG\r\n+OK\r\n"; string(got) != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
