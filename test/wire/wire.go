// Package wire speaks the Redis protocol in the raw: tests use it to send
// exactly these bytes and to see exactly those that come back.
package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Patience is how long a Conn waits for bytes, or to be rid of them, before
// it takes the server for stuck.
const Patience = 20 * time.Second

// Conn is a connection to a Redis server or something that behaves like one.
// The methods that return no error end the test when they fail, so they are
// for the test's own goroutine.
type Conn struct {
	net.Conn
	t      testing.TB
	reader *bufio.Reader
}

// Dial connects and closes the connection when the test ends.
func Dial(t testing.TB, network, addr string) *Conn {
	t.Helper()
	conn, err := net.DialTimeout(network, addr, Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return NewConn(t, conn)
}

// NewConn is a Conn on a connection that is there already.
func NewConn(t testing.TB, conn net.Conn) *Conn {
	return &Conn{Conn: conn, t: t, reader: bufio.NewReaderSize(conn, 64<<10)}
}

// Write sends bytes as they are.
func (c *Conn) Write(b []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(Patience))
	return c.Conn.Write(b)
}

// Read reads bytes as they come.
func (c *Conn) Read(b []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(Patience))
	return c.reader.Read(b)
}

// Send sends commands in one write and does not wait for replies.
func (c *Conn) Send(commands ...[]string) {
	c.t.Helper()
	if _, err := c.Write(Encode(commands...)); err != nil {
		c.t.Fatal(err)
	}
}

// Do sends a command and returns the raw reply.
func (c *Conn) Do(args ...string) string {
	c.t.Helper()
	c.Send(args)
	return c.Reply()
}

// Reply returns the raw bytes of the next reply or push.
func (c *Conn) Reply() string {
	c.t.Helper()
	reply, err := c.ReadReply()
	if err != nil {
		c.t.Fatalf("reading a reply: %v (after %q)", err, reply)
	}
	return reply
}

// Replies returns the raw bytes of the next n replies.
func (c *Conn) Replies(n int) []string {
	c.t.Helper()
	replies := make([]string, n)
	for i := range replies {
		replies[i] = c.Reply()
	}
	return replies
}

// ReadReply returns the raw bytes of the next reply or push, and what came of
// it if there is an error.
func (c *Conn) ReadReply() (string, error) {
	c.SetReadDeadline(time.Now().Add(Patience))
	var b strings.Builder
	err := readReply(c.reader, &b)
	return b.String(), err
}

// ReadAll returns what comes until the server closes the connection.
func (c *Conn) ReadAll() (string, error) {
	c.SetReadDeadline(time.Now().Add(Patience))
	b, err := io.ReadAll(c.reader)
	return string(b), err
}

// Encode returns commands as arrays of bulk strings.
func Encode(commands ...[]string) []byte {
	var b []byte
	for _, args := range commands {
		b = fmt.Appendf(b, "*%d\r\n", len(args))
		for _, arg := range args {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	return b
}

// readReply copies one reply of RESP2 or RESP3 to b.
func readReply(r *bufio.Reader, b *strings.Builder) error {
	line, err := r.ReadString('\n')
	b.WriteString(line)
	if err != nil {
		return err
	}
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return fmt.Errorf("malformed reply line %q", line)
	}
	body := line[1 : len(line)-2]
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return nil
	case '$', '=', '!':
		return readBulk(r, b, body)
	case '*', '~', '>':
		return readItems(r, b, body, 1, 0)
	case '%':
		return readItems(r, b, body, 2, 0)
	case '|':
		return readItems(r, b, body, 2, 1)
	}
	return fmt.Errorf("unknown reply type %q", line)
}

func readBulk(r *bufio.Reader, b *strings.Builder, length string) error {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return err
	}
	_, err = io.CopyN(b, r, int64(n)+2)
	return err
}

// readItems copies the count*each+more replies that make up an aggregate.
func readItems(r *bufio.Reader, b *strings.Builder, count string, each, more int) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for range n*each + more {
		if err := readReply(r, b); err != nil {
			return err
		}
	}
	return nil
}
