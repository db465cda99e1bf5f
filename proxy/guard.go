package proxy

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/tidwall/redcon"
)

// Redis's limits on what a client may send.
const (
	maxLine         = 64 << 10  // an inline command, or the line of a length
	maxArgs         = 1 << 20   // arguments of a command, since 7.0 maxCount
	maxCount        = 1<<31 - 1 // arguments that may be announced
	maxBulk         = 512 << 20 // bytes of an argument: proto-max-bulk-len
	maxCommand      = 1 << 30   // bytes of a command: client-query-buffer-limit
	maxStrangerArgs = 10        // arguments before AUTH
	maxStrangerBulk = 16 << 10  // bytes of an argument before AUTH
)

// ownedCommand is the size from which a command keeps the memory it was read
// into. Smaller ones are valid until the next Read.
const ownedCommand = 64 << 10

// token stands for a command in the bytes that redcon reads.
const token = "*1\r\n$1\r\n.\r\n"

// protocolError is a request that is not RESP, or too large. Its text is
// Redis's.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return "ERR Protocol error: " + e.text }

// errTooLarge ends a session without a word, as Redis does when its buffer for
// what a client sends is full.
var errTooLarge = errors.New("command exceeds the query buffer limit")

// errUnresolved is a mistake in how redcon was used.
var errUnresolved = errors.New("commands left unresolved")

// guard stands between a client's bytes and redcon, whose own parser can be
// made to crash, to spin, to recurse without end and to keep any amount of
// memory. It parses by Redis's rules and limits, and gives redcon a token for
// every command; resolve gives the command for the token. Tokens are told
// apart by their place alone, so there is nothing for a client to forge.
//
// The zero pre-AUTH state is the strict one: authenticated is for the session
// to set, from the goroutine that reads.
type guard struct {
	src           io.Reader
	authenticated bool // the client may send large commands
	most          int  // bytes of a command
	reads         atomic.Uint32

	*input     // nil while the client is idle
	r, w   int // buf[r:w] is read and not parsed
	full   bool

	// The command being read, its offsets relative to r.
	count int  // arguments in all
	args  int  // arguments to come
	pos   int  // parsed so far
	bulk  int  // size of the argument at hand, -1 before that is known
	seen  int  // of the line at hand: holds no end of it
	exact bool // the command is as it would be encoded

	claimed int // of ready: resolved
	err     error
}

func newGuard(src io.Reader) *guard {
	return &guard{src: src, most: maxCommand, bulk: -1}
}

// Read gives redcon tokens for whole commands, at least one. An error comes
// after all that was sent before it. A protocol error stays; after an error of
// the source, such as a deadline, reading may go on.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.take(p)
	if err != nil {
		return 0, err
	}
	return putTokens(p, n), nil
}

// putTokens writes n tokens.
func putTokens(p []byte, n int) (size int) {
	for range n {
		size += copy(p[size:], token)
	}
	return size
}

// take is Read without tokens: it returns how many commands there are. p is
// memory to read into.
func (g *guard) take(p []byte) (n int, err error) {
	if len(p) < len(token) {
		return 0, io.ErrShortBuffer
	}
	if g.input != nil {
		if g.claimed != len(g.ready) {
			return 0, errUnresolved
		}
		g.forget()
		g.claimed = 0
	}
	if err := g.gather(p); err != nil {
		return 0, err
	}
	return len(g.ready), nil
}

// isEmpty reports whether all that the client has sent, as far as is known, is
// in the commands that were resolved. redcon may still have tokens for others
// that were taken.
func (g *guard) isEmpty() bool {
	return g.r == g.w && !g.full && (g.input == nil || g.claimed == len(g.ready))
}

// resolve returns the command that redcon's token stands for. It is to be
// called once for each, in order. The command is valid until the next Read
// unless it is as large as ownedCommand.
func (g *guard) resolve(redcon.Command) redcon.Command {
	cmd := g.ready[g.claimed]
	g.claimed++
	return cmd
}

// gather reads until there is at least one command, and takes no more than p
// has room for the tokens of: the rest of what was read costs less unparsed.
func (g *guard) gather(p []byte) error {
	room := len(p) / len(token)
	for {
		for g.err == nil && g.r < g.w && len(g.ready) < room && g.parse() {
		}
		if g.input != nil && len(g.ready) > 0 {
			return nil
		}
		if g.err != nil {
			return g.err
		}
		if err := g.fill(p); err != nil {
			return err
		}
	}
}
