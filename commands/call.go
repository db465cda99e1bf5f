package commands

import (
	"strconv"

	"cellproxy/gcra"
)

// Call is one limiter command with its arguments, as Parse left it. It may be
// parsed into again and again; the zero Call is ready for it.
type Call struct {
	command *Command
	// key is the client's bytes: it is good for as long as they are.
	key              []byte
	quantity         int64
	limit            gcra.Limit  // of CL.THROTTLE
	bucket           gcra.Bucket // of TB.ACQUIRE and LB.ACQUIRE
	window           window      // of the commands that have one
	windows          []window    // of SL.ACQUIRE
	start            int64       // of FW.ACQUIRE, what its script gets
	slice, mostOlder int64       // of SW.ACQUIRE, what its script gets
	argv             []int64     // what the script gets
}

// Command returns the command that was parsed.
func (c *Call) Command() *Command { return c.command }

// Key returns the key that the limiter's state is under. It is the slice that
// Parse was given.
func (c *Call) Key() []byte { return c.key }

// Quantity returns how many units are asked for: 0 peeks, a negative number
// gives back.
func (c *Call) Quantity() int64 { return c.quantity }

// Parse checks a command, args[0] being its name, and fills the call. The call
// then refers to the key in args. An error's text is the complete Redis error,
// code included.
func (c *Command) Parse(args [][]byte, call *Call) error {
	if !c.Fits(len(args)) {
		return arityError(c)
	}
	*call = Call{command: c, key: args[1], argv: call.argv[:0], windows: call.windows[:0]}
	return c.parse(args, call)
}

// AppendEvalSHA appends the command as `EVALSHA sha 1 key argv...` in RESP.
func (c *Call) AppendEvalSHA(dst []byte) []byte {
	return c.appendArguments(c.appendKey(c.command.Script.AppendRuns(dst, 1, len(c.argv))))
}

// AppendEval appends the command as `EVAL source 1 key argv...` in RESP. It
// needs no script loaded before.
func (c *Call) AppendEval(dst []byte) []byte {
	script := c.command.Script
	return c.appendArguments(c.appendKey(script.appendHead(dst, script.eval, 1, len(c.argv))))
}

// Run is a run of a script, that can be put together with others.
type Run struct {
	Script *Script
	// Key and Arguments are the key and the arguments in RESP, and Count is the
	// number of the arguments.
	Key, Arguments []byte
	Count          int
}

// AppendRun is AppendEvalSHA that also returns the parts. They lie in what it
// returns.
func (c *Call) AppendRun(dst []byte) ([]byte, Run) {
	dst = c.command.Script.AppendRuns(dst, 1, len(c.argv))
	key := len(dst)
	dst = c.appendKey(dst)
	arguments := len(dst)
	dst = c.appendArguments(dst)
	return dst, Run{c.command.Script, dst[key:arguments], dst[arguments:], len(c.argv)}
}

func (c *Call) appendKey(dst []byte) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(c.key)), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, c.key...)
	return append(dst, '\r', '\n')
}

func (c *Call) appendArguments(dst []byte) []byte {
	for _, n := range c.argv {
		dst = appendInteger(dst, n)
	}
	return dst
}

// appendInteger appends a number as a bulk string.
func appendInteger(dst []byte, n int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}
