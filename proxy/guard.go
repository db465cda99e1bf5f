package proxy

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/tidwall/redcon"
)

// Redis's limits on what a client may send.
const (
	maxLine         = 64 << 10  // an inline command, or the line of a length
	maxArgs         = 1 << 20   // arguments of a command
	maxBulk         = 512 << 20 // bytes of an argument: proto-max-bulk-len
	maxCommand      = 1 << 30   // bytes of a command: client-query-buffer-limit
	maxStrangerArgs = 10        // arguments before AUTH
	maxStrangerBulk = 16 << 10  // bytes of an argument before AUTH
)

// The guard's buffer grows with what a client sends at once, and is small while
// it sends nothing.
const (
	minInput  = 4 << 10
	keptInput = 64 << 10
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

// errTooLarge ends a session without a word, as Redis does.
var errTooLarge = errors.New("command exceeds the query buffer limit")

// errUnresolved is a mistake in how redcon was used.
var errUnresolved = errors.New("commands left unresolved")

// guard stands between a client's bytes and redcon, whose own parser can be
// made to crash, to spin, to recurse without end and to keep any amount of
// memory. It parses by Redis's rules and limits, and gives redcon a token for
// every command; resolve gives the command for the token.
type guard struct {
	src           io.Reader
	authenticated bool // the client may send large commands

	buf  []byte
	r, w int // buf[r:w] is read and not parsed
	full bool

	// The command being read, its offsets relative to r.
	args  int // arguments to come
	pos   int // parsed so far
	bulk  int // size of the argument at hand, -1 before that is known
	exact bool
	marks []int // begin and end of each argument

	ready   []redcon.Command
	argv    [][]byte // backing of ready's Args
	handed  int      // of ready: tokens given to redcon
	claimed int      // of ready: resolved
	err     error
}

func newGuard(src io.Reader) *guard {
	return &guard{src: src, bulk: -1}
}

// Read gives redcon tokens for whole commands. An error comes after all that
// was sent before it.
func (g *guard) Read(p []byte) (int, error) {
	if g.claimed != g.handed {
		return 0, errUnresolved
	}
	if g.handed == len(g.ready) {
		if err := g.gather(); err != nil {
			return 0, err
		}
	}
	n := min(len(g.ready)-g.handed, len(p)/len(token))
	for i := range n {
		copy(p[i*len(token):], token)
	}
	g.handed += n
	return n * len(token), nil
}

// resolve returns the command that redcon's token stands for. It is to be
// called once for each, in order. The command is valid until the next Read
// unless it is as large as ownedCommand.
func (g *guard) resolve(redcon.Command) redcon.Command {
	cmd := g.ready[g.claimed]
	g.claimed++
	return cmd
}

// gather reads until there is at least one command.
func (g *guard) gather() error {
	clear(g.ready)
	g.ready, g.argv = g.ready[:0], g.argv[:0]
	g.handed, g.claimed = 0, 0
	for {
		for g.err == nil && g.parse() {
		}
		if len(g.ready) > 0 {
			return nil
		}
		if g.err != nil {
			return g.err
		}
		if err := g.fill(); err != nil {
			return err
		}
	}
}

// fill reads once from the client. An error of the source is not kept: a
// deadline can be lifted.
func (g *guard) fill() error {
	if g.r == g.w {
		if len(g.buf) > minInput && (g.w < len(g.buf)/4 || len(g.buf) > keptInput) {
			g.buf = nil
		}
		g.r, g.w = 0, 0
	}
	switch {
	case g.w-g.r >= maxCommand:
		g.err = errTooLarge
		return g.err
	case g.buf == nil:
		g.buf = make([]byte, minInput)
	case g.r > 0:
		g.w = copy(g.buf, g.buf[g.r:g.w])
		g.r = 0
	}
	if g.w == len(g.buf) || g.full && g.w == 0 && len(g.buf) < keptInput {
		grown := make([]byte, 2*len(g.buf))
		copy(grown, g.buf[:g.w])
		g.buf = grown
	}
	n, err := g.src.Read(g.buf[g.w:])
	g.w += n
	g.full = g.w == len(g.buf)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// parse takes the next piece from the buffer: the head of a command, one of its
// arguments, or an inline command. It reports false when that is not there as a
// whole, or wrong.
func (g *guard) parse() bool {
	if g.r == g.w {
		return false
	}
	if g.args == 0 {
		if g.buf[g.r] == '*' {
			return g.parseCount()
		}
		return g.parseInline()
	}
	if !g.parseArg() {
		return false
	}
	if g.args == 0 {
		g.finishCommand()
	}
	return true
}

// parseCount takes the `*3` line that begins a command. No arguments is no
// command.
func (g *guard) parseCount() bool {
	g.pos, g.exact, g.marks = 0, true, g.marks[:0]
	n, ok, whole := g.length("too big mbulk count string")
	switch {
	case !whole:
		return false
	case !ok || n > maxArgs:
		return g.wrong("invalid multibulk length")
	case n > maxStrangerArgs && !g.authenticated:
		return g.wrong("unauthenticated multibulk length")
	case n <= 0:
		g.r += g.pos
		return true
	}
	g.args, g.bulk = int(n), -1
	return true
}

// parseArg takes one argument.
func (g *guard) parseArg() bool {
	if g.bulk < 0 && !g.parseBulkLength() {
		return false
	}
	end := g.pos + g.bulk
	if g.w-g.r < end+2 {
		return false
	}
	g.marks = append(g.marks, g.pos, end)
	g.exact = g.exact && g.buf[g.r+end] == '\r' && g.buf[g.r+end+1] == '\n'
	g.pos = end + 2
	g.bulk = -1
	g.args--
	return true
}

// parseBulkLength takes the `$3` line before an argument.
func (g *guard) parseBulkLength() bool {
	first := g.pos
	if g.r+first == g.w {
		return false
	}
	n, ok, whole := g.length("too big bulk count string")
	switch {
	case !whole:
		return false
	case g.buf[g.r+first] != '$':
		return g.wrong("expected '$', got '" + printable(g.buf[g.r+first]) + "'")
	case !ok || n < 0 || n > maxBulk:
		return g.wrong("invalid bulk length")
	case n > maxStrangerBulk && !g.authenticated:
		return g.wrong("unauthenticated bulk length")
	}
	g.bulk = int(n)
	return true
}

// length takes a line that is one character and a number. Like Redis it looks
// for the carriage return and passes over whatever follows that.
func (g *guard) length(tooLong string) (n int64, ok, whole bool) {
	line := g.buf[g.r+g.pos : g.w]
	cr := bytes.IndexByte(line, '\r')
	if cr < 0 {
		if len(line) > maxLine {
			g.wrong(tooLong)
		}
		return 0, false, false
	}
	if cr+1 == len(line) {
		return 0, false, false
	}
	g.exact = g.exact && line[cr+1] == '\n'
	if cr > 0 {
		n, ok = parseInteger(line[1:cr])
	}
	g.pos += cr + 2
	return n, ok, true
}

// finishCommand makes a command of what has been parsed.
func (g *guard) finishCommand() {
	raw := g.buf[g.r : g.r+g.pos : g.r+g.pos]
	g.r += g.pos
	if len(raw) >= ownedCommand {
		// The command takes the buffer with it.
		rest := append(make([]byte, 0, max(minInput, g.w-g.r)), g.buf[g.r:g.w]...)
		g.buf, g.r, g.w = rest[:cap(rest)], 0, len(rest)
	}
	first := len(g.argv)
	for i := 0; i < len(g.marks); i += 2 {
		g.argv = append(g.argv, raw[g.marks[i]:g.marks[i+1]:g.marks[i+1]])
	}
	cmd := redcon.Command{Raw: raw, Args: g.argv[first:len(g.argv):len(g.argv)]}
	if !g.exact {
		cmd = encode(cmd.Args)
	}
	g.ready = append(g.ready, cmd)
}

// parseInline takes a command typed as a line of words.
func (g *guard) parseInline() bool {
	line := g.buf[g.r:g.w]
	end := bytes.IndexByte(line, '\n')
	if end < 0 {
		if len(line) > maxLine {
			return g.wrong("too big inline request")
		}
		return false
	}
	g.r += end + 1
	args, ok := splitInline(bytes.TrimSuffix(line[:end], []byte{'\r'}))
	if !ok {
		return g.wrong("unbalanced quotes in request")
	}
	if len(args) > 0 {
		g.ready = append(g.ready, encode(args))
	}
	return true
}

// wrong notes a protocol error; it returns false for its callers to return.
func (g *guard) wrong(text string) bool {
	g.err = &protocolError{text}
	return false
}

// printable keeps a character from ending the line it is reported in.
func printable(c byte) string {
	if c == '\r' || c == '\n' {
		c = ' '
	}
	return string([]byte{c})
}

// parseInteger reads a number as Redis does: no plus sign, no leading zeros, no
// blanks.
func parseInteger(b []byte) (n int64, ok bool) {
	digits := bytes.TrimPrefix(b, []byte{'-'})
	if len(digits) == 0 || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
