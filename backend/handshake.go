package backend

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"cellproxy/backend/cluster"
	"cellproxy/commands"
)

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

// welcome is what the upstream made of a greeting.
type welcome struct {
	needsAuth bool  // it lets the connection do nothing before AUTH
	clientID  int64 // its number for the connection, 0 if it would not say
	batches   bool  // it has taken the scripts, also those of many runs in one
}

// handshake greets the upstream: as who the proxy is first, so that a client
// whose rights are narrow gets its database and the scripts all the same, then
// as the client. The error is a *ReplyError when the upstream refused.
func handshake(ctx context.Context, conn net.Conn, proxy, client Identity) (welcome, error) {
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	c := newCallConn(conn)
	first := client
	first.User, first.Password = proxy.User, proxy.Password
	w, err := greet(c, append(introduction(first), preparation(client.DB)...))
	if first != client && (err == nil || isReplyError(err)) {
		steps := introduction(client)
		prepare := w.needsAuth || err != nil
		if prepare {
			steps = append(steps, preparation(client.DB)...)
		}
		var again welcome
		again, err = greet(c, steps)
		if prepare {
			w.batches = again.batches
		}
		w.needsAuth = again.needsAuth
		w.clientID = max(w.clientID, again.clientID)
	}
	if err == nil && len(c.buf) > 0 {
		err = fmt.Errorf("%w: more replies than commands", errReply)
	}
	if err != nil {
		conn.Close()
		return w, err
	}
	conn.SetDeadline(time.Time{})
	return w, nil
}

// step is one command of a greeting.
type step struct {
	args     []string
	required bool // a refusal ends the greeting
}

// introduction says who the connection is for, and which protocol it speaks.
func introduction(id Identity) []step {
	named := id.User != "" || id.Password != ""
	switch {
	case id.Protocol == 3 && named:
		user := id.User
		if user == "" {
			user = "default"
		}
		return []step{{[]string{"HELLO", "3", "AUTH", user, id.Password}, true}}
	case id.Protocol == 3:
		return []step{{[]string{"HELLO", "3"}, true}}
	case id.User != "":
		return []step{{[]string{"AUTH", id.User, id.Password}, true}}
	case named:
		return []step{{[]string{"AUTH", id.Password}, true}}
	}
	return nil
}

// preparation selects the database and brings the limiter scripts, so that no
// client ever waits for one to be loaded. A script that can't be loaded is no
// failure: its first use brings it, or says why not.
func preparation(db int) []step {
	var steps []step
	if db != 0 {
		steps = append(steps, step{[]string{"SELECT", strconv.Itoa(db)}, true})
	}
	for _, script := range commands.Scripts() {
		steps = append(steps, step{[]string{"SCRIPT", "LOAD", script.Source}, false})
	}
	return append(steps, step{[]string{"CLIENT", "ID"}, false})
}

// greet sends the steps in one write and reads their replies.
func greet(c *callConn, steps []step) (w welcome, err error) {
	var b []byte
	for _, s := range steps {
		b = cluster.AppendCommand(b, s.args...)
	}
	// Written beside the reading: an in-memory connection holds no bytes.
	written := make(chan error, 1)
	go func() {
		_, err := c.conn.Write(b)
		written <- err
	}()
	var refused error
	var complaint []byte
	w.batches = true
	for _, s := range steps {
		reply, err := c.reply()
		if err != nil {
			c.conn.Close()
			<-written
			if complaint != nil { // with which the upstream has closed the connection
				err = fmt.Errorf("%w, after %q", err, bytes.TrimSpace(complaint))
			}
			return w, err
		}
		if reply[0] == '-' {
			complaint = reply
		}
		noAuth := bytes.HasPrefix(reply, []byte("-NOAUTH Authentication"))
		w.needsAuth = w.needsAuth || noAuth
		if s.required && reply[0] == '-' && !noAuth && refused == nil {
			refused = &ReplyError{Line: reply}
		}
		if s.args[0] == "SCRIPT" {
			w.batches = w.batches && reply[0] == '$'
		}
		if s.args[0] == "CLIENT" && reply[0] == ':' {
			w.clientID, _ = strconv.ParseInt(string(bytes.TrimSpace(reply[1:])), 10, 64)
		}
	}
	if err := <-written; err != nil {
		return w, err
	}
	return w, refused
}
