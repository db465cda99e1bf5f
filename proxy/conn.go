package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"cellproxy/backend/poll"
)

// drainGrace is how long a draining connection still reads what its client
// has already sent.
const drainGrace = 20 * time.Millisecond

// lingerTime is how long a closed connection waits for its client to close
// too. Closing with bytes unread would make the kernel reset the connection
// and take replies from the client that it has not read yet.
const lingerTime = 200 * time.Millisecond

// refuseTime is how long telling a client that it is refused may take.
const refuseTime = 100 * time.Millisecond

// errEnded closes a session after its last reply.
var errEnded = errors.New("session ended")

// clientConn is the connection redcon reads from. It lets through only what
// the guard has checked, writes nothing for redcon (replies go through the
// session's output), and does not end before its client has been answered.
type clientConn struct {
	net.Conn
	guard    *guard
	session  *session
	draining atomic.Bool
	ended    atomic.Bool
	refused  bool
	idle     idleness // guarded by the server's mu

	tls *tlsConn // Conn if it has TLS

	// Of a connection that a loop may serve.
	socket  *socket
	loop    *poll.Loop
	pending int // commands that the loop has read and redcon has not
	calm    int // batches in a row that the loop could have served
}

func newClientConn(server *Server, conn net.Conn) *clientConn {
	c := &clientConn{Conn: conn, guard: newGuard(conn)}
	c.session = newSession(server, c)
	return c
}

// Read implements net.Conn for redcon.
func (c *clientConn) Read(p []byte) (int, error) {
	if c.pending > 0 {
		n := min(c.pending, len(p)/len(token))
		c.pending -= n
		return putTokens(p, n), nil
	}
	n, err := c.guard.Read(p)
	if err == nil {
		return n, nil
	}
	var broken *protocolError
	if errors.As(err, &broken) {
		c.session.server.counters.malformed.Add(1)
		c.session.out.local([]byte("-" + broken.Error() + "\r\n"))
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	if c.tls != nil && !c.tls.shaken {
		c.session.server.log.Debug("no TLS with a client", "addr", c.RemoteAddr().String(), "err", err)
	}
	c.session.finish()
	return 0, err
}

// Write implements net.Conn for redcon, which flushes its own empty buffer
// after every batch.
func (c *clientConn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn for redcon: it ends the session.
func (c *clientConn) Close() error {
	if c.ended.Swap(true) {
		return nil
	}
	c.session.close()
	if !c.refused {
		c.linger()
	}
	err := c.Conn.Close()
	if c.socket != nil {
		c.socket.release()
	}
	if c.tls != nil {
		c.tls.release()
	}
	c.session.server.forget(c)
	return err
}

// refuse answers a client that may not stay, without waiting for it. One with
// TLS is told nothing, as that would take a handshake.
func (c *clientConn) refuse(reply string) {
	c.refused = true
	if c.tls != nil {
		return
	}
	c.Conn.SetWriteDeadline(time.Now().Add(refuseTime))
	c.Conn.Write([]byte(reply))
}

// drain lets the client finish what it has already sent, and no more.
func (c *clientConn) drain() {
	c.draining.Store(true)
	c.Conn.SetReadDeadline(time.Now().Add(drainGrace))
}

// linger tells the client that nothing more comes and reads what it still
// sends for a moment.
func (c *clientConn) linger() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	conn := c.Conn
	if c.tls != nil {
		conn = c.tls.below.Conn
	}
	conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
}
