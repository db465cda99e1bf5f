package proxy

import "runtime/debug"

// calmBatches is after how many batches in a row that a loop could have served
// it serves a client again.
const calmBatches = 16

// join has the loop read from the client: it serves what never has to wait. A
// client that asks for more, has no room for replies, or leaves, parts from it.
func (c *clientConn) join() {
	c.socket.looping = true
	c.session.loop = c.loop
	if c.loop.Add(c.socket.fd, c) != nil {
		c.part(0)
	}
}

// part gives the client to redcon, with n commands that it has sent already.
func (c *clientConn) part(n int) {
	c.loop.Remove(c.socket.fd, c)
	c.socket.looping = false
	c.session.loop = nil
	c.pending, c.calm = n, 0
	server := c.session.server
	if _, err := c.socket.open(); err != nil {
		server.log.Warn("cannot serve a client", "err", err)
		c.session.out.cut()
		go c.Close() // Shutdown waits for it
		return
	}
	server.listener.handed <- c
}

// isCalm reports whether the client is to be given back to its loop.
func (c *clientConn) isCalm() bool {
	if c.loop == nil || c.pending > 0 || c.draining.Load() || !c.session.plain() || !c.guard.isEmpty() {
		c.calm = 0
		return false
	}
	c.calm++
	return c.calm >= calmBatches
}

// Ready implements poll.Handler: it takes what the client has sent. A panic ends
// that client's session and no other.
func (c *clientConn) Ready(hangup bool) {
	defer func() {
		if p := recover(); p != nil {
			c.session.server.counters.panics.Add(1)
			c.session.server.log.Error("panic in a session", "panic", p, "stack", string(debug.Stack()))
			c.session.out.cut()
			c.part(0)
		}
	}()
	for more := true; more; more = hangup || !c.guard.isEmpty() {
		n, err := c.guard.take(c.loop.Scratch())
		if err == errAgain {
			return
		}
		if err != nil || !c.session.immediate(c.guard.ready) {
			c.part(n)
			return
		}
		c.session.serveReady(n)
	}
}

// Released implements poll.Handler.
func (c *clientConn) Released() { c.part(0) }
