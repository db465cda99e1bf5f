package commands

// refusalFunc is AppendRefusal for a command whose replies are five numbers.
type refusalFunc func(call *Call, state State, fromMicros, toMicros int64) (reply [5]int64, ok bool)

// Lasting reports whether a refusal of the command is answered with the same
// reply for long enough to be kept: times in whole seconds are, those in
// milliseconds are not.
func (c *Command) Lasting() bool { return c.refusal != nil }

// AppendRefusal appends the reply to a call of a Lasting command if a state
// refuses it, and with one and the same reply at every moment from one to
// another, in microseconds since the epoch. Otherwise it reports false. It does
// not allocate.
//
// While a state stays as it is, time only ever brings the refused nearer to
// being admitted: no number of the reply goes up and comes down again. So what
// is answered at both ends is answered at all moments between.
func (c *Call) AppendRefusal(dst []byte, state State, fromMicros, toMicros int64) ([]byte, bool) {
	if fromMicros > toMicros || !c.command.Lasting() {
		return dst, false
	}
	reply, ok := c.command.refusal(c, state, fromMicros, toMicros)
	if !ok {
		return dst, false
	}
	return AppendReply(dst, reply[:]), true
}

// RawName returns the limiter command that raw, as it is on the wire, begins
// with, and its key. The command is nil if raw is none.
func RawName(raw []byte) (command *Command, key []byte) {
	count, rest, ok := cutNumber(raw, '*')
	if !ok || count < 2 {
		return nil, nil
	}
	name, rest, ok := cutBulk(rest)
	if !ok {
		return nil, nil
	}
	if key, _, ok = cutBulk(rest); !ok {
		return nil, nil
	}
	return Lookup(name), key
}

// cutBulk takes a bulk string.
func cutBulk(raw []byte) (word, rest []byte, ok bool) {
	length, rest, ok := cutNumber(raw, '$')
	if !ok || length+2 > len(rest) {
		return nil, nil, false
	}
	return rest[:length], rest[length+2:], true
}
