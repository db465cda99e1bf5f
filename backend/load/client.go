package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
)

// greeting is what has to be said first on a connection.
func greeting(to *backend.Endpoint) [][]string {
	var steps [][]string
	switch {
	case to.User != "":
		steps = append(steps, []string{"AUTH", to.User, to.Password})
	case to.Password != "":
		steps = append(steps, []string{"AUTH", to.Password})
	}
	if to.DB != 0 {
		steps = append(steps, []string{"SELECT", strconv.Itoa(to.DB)})
	}
	return steps
}

// client is one connection.
type client struct {
	conn     net.Conn
	template *template
	random   *randv2.Rand
	out      []byte // so many commands as make a pipeline
	in       []byte // read, and not yet used
	answers  []answer
}

// answer is what came of one request.
type answer struct {
	took    time.Duration
	limited bool
	err     string // the error that it was answered with, or none
}

func (r *run) newClient(ctx context.Context) (*client, error) {
	conn, err := r.to.Dial(ctx)
	if err != nil {
		return nil, err
	}
	var seed [32]byte
	rand.Read(seed[:])
	c := &client{
		conn: conn, template: r.template, random: randv2.New(randv2.NewChaCha8(seed)),
		out: bytes.Repeat(r.template.text, r.Pipeline), in: make([]byte, 0, 16<<10),
	}
	steps := greeting(r.to)
	if r.template.load != nil {
		steps = append(steps, r.template.load)
	}
	for _, words := range steps {
		if err := c.say(words, r.Timeout); err != nil {
			conn.Close()
			return nil, fmt.Errorf("%s: %w", words[0], err)
		}
	}
	return c, nil
}

// say sends one command that must not be answered with an error.
func (c *client) say(words []string, timeout time.Duration) error {
	c.conn.SetDeadline(time.Now().Add(timeout))
	if _, err := c.conn.Write(encode(words)); err != nil {
		return err
	}
	reply, err := c.reply()
	if err == nil && reply.Type == redcon.Error {
		err = errors.New(string(reply.Data))
	}
	return err
}

// pipeline sends n commands in one write and reads their replies. With an error
// come those that were answered before. They are good until the next call.
func (c *client) pipeline(n int, timeout time.Duration) ([]answer, error) {
	size := len(c.template.text)
	for i := range n {
		c.template.fill(c.out[i*size:], c.random)
	}
	c.answers = c.answers[:0]
	began := time.Now()
	c.conn.SetDeadline(began.Add(timeout))
	// Written beside the reading when it may be more than the sockets hold: the
	// server need not read on while its replies are not read.
	written := make(chan error, 1)
	write := func() {
		_, err := c.conn.Write(c.out[:n*size])
		written <- err
	}
	if n*size < smallWrite {
		write()
	} else {
		go write()
	}
	for range n {
		reply, err := c.reply()
		if err != nil {
			c.conn.Close()
			<-written
			return c.answers, err
		}
		a := answer{took: time.Since(began)}
		switch {
		case reply.Type == redcon.Error:
			a.err = string(reply.Data)
		case c.template.limiter && reply.Type == redcon.Array:
			a.limited = bytes.HasPrefix(reply.Data, []byte(":1\r\n"))
		}
		c.answers = append(c.answers, a)
	}
	return c.answers, <-written
}

// smallWrite fits into the buffers of any socket.
const smallWrite = 16 << 10

var errNoReply = errors.New("what came is no reply of Redis")

// reply reads the next reply. It is good until the next call.
func (c *client) reply() (redcon.RESP, error) {
	for {
		if n, reply := redcon.ReadNextRESP(c.in); n > 0 {
			c.in = c.in[n:]
			return reply, nil
		}
		if len(c.in) > 0 && !bytes.ContainsRune([]byte("+-:$*"), rune(c.in[0])) {
			return redcon.RESP{}, errNoReply
		}
		if err := c.fill(); err != nil {
			return redcon.RESP{}, err
		}
	}
}

// fill reads more. What was read before moves to a buffer with room for it, and
// a reply that refers to the old one stays as it is.
func (c *client) fill() error {
	if cap(c.in)-len(c.in) < 512 {
		c.in = append(make([]byte, 0, max(16<<10, 2*len(c.in))), c.in...)
	}
	n, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
