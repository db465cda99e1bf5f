package proxy

import (
	"bytes"
	"strconv"

	"github.com/tidwall/redcon"
)

// parse takes the next piece from the buffer: the count that begins a command,
// its arguments, or an inline command. It reports false when that is not there
// as a whole, or wrong.
func (g *guard) parse() bool {
	switch {
	case g.args > 0:
		return g.parseArgs()
	case g.buf[g.r] == '*':
		return g.parseUsual() || g.parseCount()
	}
	return g.parseInline()
}

// parseUsual takes a command that is like most: all there, well-formed and
// small enough for anybody. It leaves any other to the functions below, which
// get by with less.
func (g *guard) parseUsual() bool {
	b := g.buf[g.r:g.w]
	args, pos := usualLength(b)
	if args == 0 || args > maxStrangerArgs {
		return false
	}
	first := len(g.argv)
	argv := g.argv
	for range args {
		n, size := usualLength(b[pos:])
		begin := pos + size
		end := begin + n
		if size == 0 || b[pos] != '$' || n > maxStrangerBulk ||
			end+1 >= len(b) || b[end] != '\r' || b[end+1] != '\n' {
			clear(argv[first:])
			return false
		}
		argv = append(argv, b[begin:end:end])
		pos = end + 2
	}
	if pos >= ownedCommand {
		clear(argv[first:])
		return false
	}
	g.argv = argv
	g.ready = append(g.ready, redcon.Command{Raw: b[:pos:pos], Args: argv[first:len(argv):len(argv)]})
	g.r += pos
	return true
}

// parseCount takes the `*3` line that begins a command. No arguments is no
// command.
func (g *guard) parseCount() bool {
	g.pos, g.exact = 0, true
	n, ok, whole := g.length("too big mbulk count string")
	switch {
	case !whole:
		return false
	case !ok || n > maxCount:
		return g.wrong("invalid multibulk length")
	case n > maxStrangerArgs && !g.authenticated:
		return g.tooMuch("unauthenticated multibulk length")
	case n > maxArgs:
		return g.wrong("invalid multibulk length")
	case n <= 0:
		g.r += g.pos
		return true
	}
	g.count, g.args, g.bulk = n, n, -1
	return true
}

// parseArgs takes the arguments.
func (g *guard) parseArgs() bool {
	for g.args > 0 {
		if g.bulk < 0 && !g.parseBulkLength() {
			return false
		}
		b, end := g.buf[g.r:g.w], g.pos+g.bulk
		if end > g.most {
			g.err = errTooLarge
			return false
		}
		if len(b) < end+2 {
			return false
		}
		if b[end] != '\r' || b[end+1] != '\n' {
			g.exact = false // Redis does not look either
		}
		g.pos = end + 2
		g.bulk = -1
		g.args--
	}
	g.finishCommand()
	return true
}

// parseBulkLength takes the `$3` line before an argument.
func (g *guard) parseBulkLength() bool {
	first := g.pos
	if g.r+first == g.w {
		return false
	}
	n, ok, whole := g.length("too big bulk count string")
	switch c := g.buf[g.r+first]; {
	case !whole:
		return false
	case c != '$':
		return g.wrong("expected '$', got '" + printable(c) + "'")
	case !ok || n < 0 || n > maxBulk:
		return g.wrong("invalid bulk length")
	case n > maxStrangerBulk && !g.authenticated:
		g.pos = first
		return g.tooMuch("unauthenticated bulk length")
	}
	g.bulk = n
	return true
}

// length takes a line that is one character and a number. Like Redis it looks
// for the carriage return and passes over whatever follows that.
func (g *guard) length(tooLong string) (n int, ok, whole bool) {
	line := g.buf[g.r+g.pos : g.w]
	if n, size := usualLength(line); size > 0 && line[0] != 0 {
		g.pos += size
		g.seen = 0
		return n, true, true
	}
	cr := g.lineEnd(line, '\r')
	if cr < 0 {
		if len(line) > maxLine {
			g.wrong(tooLong)
		}
		return 0, false, false
	}
	if cr+1 == len(line) {
		return 0, false, false
	}
	if line[cr+1] != '\n' {
		g.exact = false
	}
	if cr > 0 {
		n, ok = parseInteger(line[1:cr])
	}
	g.pos += cr + 2
	g.seen = 0
	return n, ok, true
}

// usualLength is length for lines such as most are. The size of the line is 0
// if this is another. It does not look at the first character.
func usualLength(line []byte) (n, size int) {
	const digits = 5
	for i := 1; i < len(line)-1 && i < 2+digits; i++ {
		d := line[i] - '0'
		if d <= 9 {
			n = n*10 + int(d)
			continue
		}
		if line[i] == '\r' && line[i+1] == '\n' && i > 1 && (line[1] != '0' || i == 2) {
			return n, i + 2
		}
		break
	}
	return 0, 0
}

// lineEnd returns where a line ends, or -1. Redis searches it as C does, so a
// line with a zero byte has no end and at last is too long. What has been
// searched is not searched again when more has come.
func (g *guard) lineEnd(line []byte, end byte) int {
	line = line[:min(len(line), maxLine+1)]
	if g.seen >= len(line) {
		return -1
	}
	fresh := line[g.seen:]
	at := bytes.IndexByte(fresh, end)
	if at >= 0 {
		fresh = fresh[:at]
	}
	switch {
	case bytes.IndexByte(fresh, 0) >= 0:
		g.seen = maxLine + 1
		return -1
	case at < 0:
		g.seen = len(line)
		return -1
	}
	g.seen += at
	return g.seen
}

// finishCommand makes a command of what has been parsed. What is large has its
// memory for itself.
func (g *guard) finishCommand() {
	raw := g.buf[g.r : g.r+g.pos : g.r+g.pos]
	g.r += g.pos
	var args [][]byte
	if len(raw) >= ownedCommand {
		raw = g.own(raw)
		args = splitArgs(make([][]byte, 0, g.count), raw, g.count)
	} else {
		first := len(g.argv)
		g.argv = splitArgs(g.argv, raw, g.count)
		args = g.argv[first:len(g.argv):len(g.argv)]
	}
	cmd := redcon.Command{Raw: raw, Args: args}
	if !g.exact {
		cmd = encode(args)
	}
	g.ready = append(g.ready, cmd)
}

// splitArgs appends the arguments of a command that has been found good. To
// look at its lines again is cheaper than to keep note of them while it comes.
func splitArgs(args [][]byte, raw []byte, count int) [][]byte {
	pos := bytes.IndexByte(raw, '\r') + 2
	for range count {
		cr := pos + bytes.IndexByte(raw[pos:], '\r')
		n, _ := parseInteger(raw[pos+1 : cr])
		begin, end := cr+2, cr+2+n
		args = append(args, raw[begin:end:end])
		pos = end + 2
	}
	return args
}

// parseInline takes a command typed as a line of words.
func (g *guard) parseInline() bool {
	line := g.buf[g.r:g.w]
	end := g.lineEnd(line, '\n')
	if end < 0 {
		if len(line) > maxLine {
			return g.wrong("too big inline request")
		}
		return false
	}
	g.r += end + 1
	g.seen = 0
	args, ok := splitInline(bytes.TrimSuffix(line[:end], []byte{'\r'}))
	if !ok {
		return g.wrong("unbalanced quotes in request")
	}
	if len(args) > 0 {
		g.ready = append(g.ready, encode(args))
	}
	return true
}

// tooMuch refuses what only those who have authenticated may send. Commands
// before it may yet do that, so they are run first.
func (g *guard) tooMuch(text string) bool {
	if len(g.ready) > 0 {
		return false
	}
	return g.wrong(text)
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
func parseInteger(b []byte) (n int, ok bool) {
	digits := bytes.TrimPrefix(b, []byte{'-'})
	if len(digits) == 0 || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n64, err := strconv.ParseInt(string(b), 10, 64)
	return int(n64), err == nil && int64(int(n64)) == n64
}
