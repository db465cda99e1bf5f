package backend

import (
	"bytes"
	"errors"
	"fmt"
)

// errReply is wrapped by every error about bytes from the upstream that are
// not RESP. A connection that sent them can't be trusted to be in step any
// more, so it is given up.
var errReply = errors.New("upstream does not speak RESP")

// framer finds where a RESP2 or RESP3 reply ends, in whatever pieces it
// arrives, without looking at a byte of it twice. The zero value stands at the
// start of a reply.
type framer struct {
	values int  // values still to come before the reply is whole
	bulk   int  // bytes of a bulk's payload and terminator still to come
	inside bool // a part of a reply has been consumed, but not all
}

// next consumes the bytes of b that belong to the current reply and reports
// how many they are and whether the reply is whole with them. It takes headers
// only as whole lines: when it returns fewer bytes than b has and the reply is
// not whole, the rest is the beginning of a line.
func (f *framer) next(b []byte) (n int, whole bool, err error) {
	begun := f.inside
	if !begun {
		*f = framer{values: 1, inside: true}
	}
	for n < len(b) {
		if f.bulk > 0 {
			skip := min(f.bulk, len(b)-n)
			f.bulk -= skip
			n += skip
			if f.bulk > 0 {
				return n, false, nil
			}
			f.values--
		} else {
			eol := bytes.IndexByte(b[n:], '\n')
			if eol < 0 {
				f.inside = begun || n > 0
				return n, false, nil
			}
			if err := f.header(b[n : n+eol+1]); err != nil {
				return n, false, err
			}
			n += eol + 1
		}
		if f.values == 0 && f.bulk == 0 {
			f.inside = false
			return n, true, nil
		}
	}
	return n, false, nil
}

// ReplyLength returns how many bytes of b its first reply, of RESP2 or RESP3,
// takes, or 0 if b does not begin with a whole one.
func ReplyLength(b []byte) int {
	var f framer
	n, whole, err := f.next(b)
	if err != nil || !whole {
		return 0
	}
	return n
}

// header takes one line, terminator included.
func (f *framer) header(line []byte) error {
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		f.values--
		return nil
	}
	count, err := headerLength(line)
	if err != nil {
		return err
	}
	switch line[0] {
	case '$', '=', '!':
		if count < 0 {
			f.values--
			return nil
		}
		f.bulk = count + 2
	case '*', '~', '>':
		f.values += max(count, 0) - 1
	case '%':
		f.values += 2*max(count, 0) - 1
	case '|': // an attribute stands before the value it describes
		f.values += 2 * max(count, 0)
	default:
		return fmt.Errorf("%w: a reply begins with %q", errReply, line[0])
	}
	return nil
}

// headerLength reads the number of a `$5\r\n` line; -1 stands for null.
func headerLength(line []byte) (int, error) {
	if len(line) < 4 || line[len(line)-2] != '\r' {
		return 0, fmt.Errorf("%w: %q", errReply, line)
	}
	digits := line[1 : len(line)-2]
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1<<40 {
			if string(digits) == "-1" {
				return -1, nil
			}
			return 0, fmt.Errorf("%w: %q", errReply, line)
		}
		n = n*10 + int(c-'0')
	}
	return n, nil
}
