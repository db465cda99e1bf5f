package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"cellproxy/commands"
)

var errNotOurs = errors.New("not a limiter script")

// callConn sends one command at a time and waits for its reply.
type callConn struct {
	conn  net.Conn
	buf   []byte // read and not used
	frame framer
}

func newCallConn(conn net.Conn) *callConn {
	return &callConn{conn: conn}
}

// call returns the whole reply to an encoded command. After an error the
// connection is of no use.
func (c *callConn) call(command []byte, deadline time.Time) ([]byte, error) {
	c.conn.SetDeadline(deadline)
	if _, err := c.conn.Write(command); err != nil {
		return nil, err
	}
	return c.reply()
}

// reply returns the next reply.
func (c *callConn) reply() ([]byte, error) {
	used := 0
	for {
		n, whole, err := c.frame.next(c.buf[used:])
		if err != nil {
			return nil, err
		}
		used += n
		if whole {
			reply := bytes.Clone(c.buf[:used])
			c.buf = c.buf[:copy(c.buf, c.buf[used:])]
			return reply, nil
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

func (c *callConn) fill() error {
	var chunk [4096]byte
	n, err := c.conn.Read(chunk[:])
	c.buf = append(c.buf, chunk[:n]...)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// greeting is what a new connection says first: who it is, and the limiter
// scripts, so that no client ever waits for one to be loaded.
func greeting(id Identity) (b []byte, required int) {
	if id.Protocol == 3 {
		hello := []string{"HELLO", "3"}
		if id.Password != "" || id.User != "" {
			hello = append(hello, "AUTH", id.user(), id.Password)
		}
		b = appendCommand(b, hello...)
		required++
	} else if id.User != "" {
		b = appendCommand(b, "AUTH", id.User, id.Password)
		required++
	} else if id.Password != "" {
		b = appendCommand(b, "AUTH", id.Password)
		required++
	}
	if id.DB != 0 {
		b = appendCommand(b, "SELECT", strconv.Itoa(id.DB))
		required++
	}
	for _, script := range commands.Scripts() {
		b = appendCommand(b, "SCRIPT", "LOAD", script.Source)
	}
	return b, required
}

// welcome is what the upstream made of a greeting.
type welcome struct {
	needsAuth bool  // it lets the connection do nothing before AUTH
	clientID  int64 // its number for the connection, 0 if it would not say
}

// handshake greets the upstream. The error is a *ReplyError when the upstream
// refused.
func handshake(ctx context.Context, conn net.Conn, id Identity) (w welcome, err error) {
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	hello, required := greeting(id)
	hello = appendCommand(hello, "CLIENT", "ID")
	// Written beside the reading: an in-memory connection holds no bytes.
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(hello)
		written <- err
	}()
	w, err = greeted(newCallConn(conn), required)
	if err != nil {
		conn.Close()
	}
	if werr := <-written; err == nil {
		err = werr
	}
	conn.SetDeadline(time.Time{})
	return w, err
}

// greeted reads the replies to the greeting. A script that could not be loaded
// is no failure: its first use brings it, or says why not.
func greeted(c *callConn, required int) (w welcome, err error) {
	last := required + len(commands.Scripts())
	for i := range last + 1 {
		reply, err := c.reply()
		if err != nil {
			return w, err
		}
		noAuth := bytes.HasPrefix(reply, []byte("-NOAUTH "))
		w.needsAuth = w.needsAuth || noAuth
		refused := reply[0] == '-' && !(noAuth && !bytes.HasPrefix(reply, []byte("-NOAUTH HELLO")))
		if i < required && refused {
			return w, &ReplyError{Line: reply}
		}
		if i == last && reply[0] == ':' {
			w.clientID, _ = strconv.ParseInt(string(bytes.TrimSpace(reply[1:])), 10, 64)
		}
	}
	if len(c.buf) > 0 {
		return w, fmt.Errorf("%w: more replies than commands", errReply)
	}
	return w, nil
}
