package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
)

// A probe finds, among all that a wire brings, the reply to what the proxy itself
// has sent there.
type probe interface {
	// take takes a piece of what came, first says the beginning of a reply, and
	// returns what is for the client.
	take(b []byte, first bool) []byte
	// isDone reports whether the reply has come.
	isDone() bool
}

// markOf is a word by which a session knows its own question.
func markOf(id int64) string { return fmt.Sprintf("cellproxy:%d", id) }

// resetProbe finds the reply to RESET, and that to a command that Redis does not
// know, if that went before. Both are a line, in whatever state a connection is.
type resetProbe struct {
	mark   string // the command
	marked bool   // it has been answered
	done   bool   // RESET has been answered
}

func newResetProbe(id int64) *resetProbe { return &resetProbe{mark: markOf(id)} }

// command is what Redis does not know.
func (p *resetProbe) command() redcon.Command { return encodeWords(p.mark) }

var replyReset = []byte("+RESET\r\n")

func (p *resetProbe) take(b []byte, first bool) []byte {
	switch {
	case p.done || !first:
		return b
	case bytes.Equal(b, replyReset):
		p.done = true
		return nil
	case !p.marked && b[0] == '-' && bytes.Contains(b, []byte(p.mark)):
		p.marked = true
		return nil
	}
	return b
}

func (p *resetProbe) isDone() bool { return p.done }

// countProbe finds the reply to UNSUBSCRIBE or SUNSUBSCRIBE from a channel that
// nobody subscribes to, which says how many subscriptions there are. Whoever may
// not ask gets an error that is like the one the client got, if it has asked too.
type countProbe struct {
	name, mark string
	head       string // of the reply, after its first byte
	refusal    string // what the error has
	held       []byte // what may be the beginning of the reply
	done       bool
	counted    bool
	count      int
}

// newCountProbe returns the probe for UNSUBSCRIBE or SUNSUBSCRIBE.
func newCountProbe(name string, id int64) *countProbe {
	lower, mark := string(bytes.ToLower([]byte(name))), markOf(id)
	return &countProbe{
		name: name, mark: mark,
		head:    fmt.Sprintf("3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:", len(lower), lower, len(mark), mark),
		refusal: "'" + lower + "'",
	}
}

func (p *countProbe) command() redcon.Command { return encodeWords(p.name, p.mark) }

func (p *countProbe) take(b []byte, first bool) []byte {
	if p.done || !first && len(p.held) == 0 {
		return b
	}
	if first && bytes.HasPrefix(b, []byte("-NOPERM ")) && bytes.Contains(b, []byte(p.refusal)) {
		p.done = true
		return nil
	}
	p.held = append(p.held, b...)
	if p.held[0] != '*' && p.held[0] != '>' || !alike(p.held[1:], p.head) {
		b, p.held = p.held, nil
		return b
	}
	if backend.ReplyLength(p.held) > 0 {
		p.count, _ = strconv.Atoi(string(bytes.TrimSpace(p.held[1+len(p.head):])))
		p.done, p.counted = true, true
	}
	return nil
}

// alike reports whether the one begins as the other, as far as both go.
func alike(b []byte, head string) bool {
	n := min(len(b), len(head))
	return string(b[:n]) == head[:n]
}

func (p *countProbe) isDone() bool { return p.done }

// replyProbe takes the next reply that is no push.
type replyProbe struct {
	reply   []byte
	passing bool // a push is
	done    bool
}

func (p *replyProbe) take(b []byte, first bool) []byte {
	if first {
		p.passing = b[0] == '>'
	}
	if p.done || p.passing {
		return b
	}
	p.reply = append(p.reply, b...)
	p.done = backend.ReplyLength(p.reply) > 0
	return nil
}

func (p *replyProbe) isDone() bool { return p.done }

// setProbe has p look at all that comes from now on, nil nobody.
func (o *output) setProbe(p probe) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probe = p
}

// awaitProbe waits until the probe is done, for at most d. It reports whether it
// is.
func (o *output) awaitProbe(d time.Duration) bool {
	o.waitFor(d, func() bool { return o.probe.isDone() })
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.probe.isDone()
}

// failure returns why the client is gone, or nil.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
