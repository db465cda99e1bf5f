package commands

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

var errNotLimiter = errors.New("ERR not a limiter command")

// ParseRaw is Parse for a whole command as it is on the wire, an array of bulk
// strings, whichever of the table it may be.
func ParseRaw(raw []byte, call *Call) error {
	args := splitArray(raw)
	if len(args) == 0 {
		return errNotLimiter
	}
	command := Lookup(args[0])
	if command == nil {
		return errNotLimiter
	}
	return command.Parse(args, call)
}

// splitArray returns the words of an array of bulk strings, or nil if raw is
// something else.
func splitArray(raw []byte) [][]byte {
	count, rest, ok := cutNumber(raw, '*')
	if !ok || count > len(rest) {
		return nil
	}
	args := make([][]byte, count)
	for i := range args {
		if args[i], rest, ok = cutBulk(rest); !ok {
			return nil
		}
	}
	return args
}

// cutNumber takes a line that holds a number of 0 or more behind mark.
func cutNumber(raw []byte, mark byte) (n int, rest []byte, ok bool) {
	line, rest, found := bytes.Cut(raw, []byte("\r\n"))
	if !found || len(line) < 2 || line[0] != mark {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil && n >= 0
}

// Denied returns the reply that refuses the call, whatever its state, and says
// to come back after a time.
func (c *Call) Denied(nowMicros int64, retryAfter time.Duration) ([]int64, error) {
	_, reply, err := c.Model(State{}, nowMicros)
	if err != nil {
		return nil, err
	}
	unit := time.Millisecond
	if c.command.Seconds {
		unit = time.Second
	}
	wait := divideUp(int64(retryAfter), int64(unit))
	reply[0], reply[2], reply[3], reply[4] = 1, 0, wait, wait
	clear(reply[5:]) // of several limits, it is the first that denies
	return reply, nil
}

// AppendReply appends a reply of the models in RESP.
func AppendReply(dst []byte, reply []int64) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(reply)), 10)
	dst = append(dst, '\r', '\n')
	for _, n := range reply {
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, n, 10)
		dst = append(dst, '\r', '\n')
	}
	return dst
}
