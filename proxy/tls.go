package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// DefaultHandshakeTimeout is that of Settings.
const DefaultHandshakeTimeout = 10 * time.Second

// farewellTime is how long telling a client that its TLS has ended may take.
const farewellTime = 100 * time.Millisecond

// tlsConn is a client's connection with TLS. Those who write to it must not wait
// when it ends, so Close ends reading and writing without a word; the goroutine
// that reads tells the client, by CloseWrite, and lets go, by release.
type tlsConn struct {
	*tls.Conn
	below   *transport
	timeout time.Duration // of the handshake
	shaken  bool          // only the goroutine that reads knows
}

// transport is what is below TLS. What TLS has to say at the end does not take
// long.
type transport struct {
	net.Conn
	ending atomic.Bool
}

func newTLSConn(conn net.Conn, settings *Settings) *tlsConn {
	below := &transport{Conn: conn}
	return &tlsConn{Conn: tls.Server(below, settings.TLS), below: below, timeout: settings.HandshakeTimeout}
}

// SetWriteDeadline implements net.Conn for TLS.
func (t *transport) SetWriteDeadline(deadline time.Time) error {
	if soon := time.Now().Add(farewellTime); t.ending.Load() && (deadline.IsZero() || deadline.After(soon)) {
		deadline = soon
	}
	return t.Conn.SetWriteDeadline(deadline)
}

// Read implements net.Conn. The first has the client agree on keys, for which it
// has some time, and show its certificate if it must.
func (c *tlsConn) Read(p []byte) (int, error) {
	if !c.shaken {
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		if err := c.HandshakeContext(ctx); err != nil {
			return 0, err
		}
		c.shaken = true
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn. It does not wait.
func (c *tlsConn) Close() error {
	c.below.ending.Store(true)
	return c.below.Conn.SetDeadline(time.Unix(1, 0)) // long ago
}

// CloseWrite tells the client that nothing more comes.
func (c *tlsConn) CloseWrite() error {
	c.below.ending.Store(true)
	c.Conn.CloseWrite() // an error says that there has been no handshake
	half, ok := c.below.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite()
}

// release closes the connection for good.
func (c *tlsConn) release() { c.below.Close() }
