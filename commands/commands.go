// Package commands is the limiter commands: for each its grammar, its script and
// its model. It knows neither networks nor Redis clients.
//
// A limiter command is a macro: the proxy parses it and sends one EVALSHA in its
// place, whose script decides atomically on the upstream's clock and returns the
// finished reply.
package commands

import (
	"bytes"
	"strconv"

	"cellproxy/gcra"
)

// table is every limiter command. To add one, write its .go and .lua and name
// it here.
var table = []*Command{
	clThrottle,
}

// Command is a limiter command.
type Command struct {
	Name    string // in upper case
	Arity   int    // as COMMAND has it: at least so many words if negative
	Summary string
	Usage   string
	Script  *Script

	parse func(args [][]byte, call *Call) error
	model func(call *Call, state State, nowMicros int64) (State, []int64, error)
}

// All returns every limiter command.
func All() []*Command {
	return table
}

// Lookup returns the limiter command of a name in any letter case, or nil.
func Lookup(name []byte) *Command {
	for _, c := range table {
		if len(name) == len(c.Name) && bytes.EqualFold(name, []byte(c.Name)) {
			return c
		}
	}
	return nil
}

// Scripts returns the scripts of all commands, each once.
func Scripts() []*Script {
	var scripts []*Script
	seen := make(map[*Script]bool)
	for _, c := range table {
		if !seen[c.Script] {
			seen[c.Script] = true
			scripts = append(scripts, c.Script)
		}
	}
	return scripts
}

// Call is a limiter command ready to be sent: a script, its key and its
// arguments.
type Call struct {
	command *Command
	key     []byte
	argv    []int64 // the script's

	// The model's.
	limit    gcra.Limit
	quantity int64
}

// Parse checks the arguments of a command, its name first, and makes call of
// them, which may have been used before and keeps the key's memory. The error's
// text is the reply: "ERR …".
func (c *Command) Parse(args [][]byte, call *Call) error {
	if c.Arity >= 0 && len(args) != c.Arity || len(args) < -c.Arity {
		return arityError(c.Name)
	}
	call.command, call.key, call.argv = c, args[1], call.argv[:0]
	return c.parse(args, call)
}

// AppendEvalSHA appends the call as a RESP command that names the script.
func (c *Call) AppendEvalSHA(dst []byte) []byte {
	dst = appendArrayHeader(dst, 4+len(c.argv))
	dst = appendBulk(dst, "EVALSHA")
	return c.appendArguments(appendBulk(dst, c.command.Script.SHA1))
}

// AppendEval appends the call as a RESP command that carries the script.
func (c *Call) AppendEval(dst []byte) []byte {
	dst = appendArrayHeader(dst, 4+len(c.argv))
	dst = appendBulk(dst, "EVAL")
	return c.appendArguments(appendBulk(dst, c.command.Script.Source))
}

func (c *Call) appendArguments(dst []byte) []byte {
	dst = appendBulk(dst, "1")
	dst = appendBulk(dst, c.key)
	for _, arg := range c.argv {
		var digits [20]byte
		dst = appendBulk(dst, strconv.AppendInt(digits[:0], arg, 10))
	}
	return dst
}

// State is what a limiter keeps: the value of its key.
type State struct {
	Value         string // "" is no state
	ExpiresMicros int64  // since the epoch; without state 0
}

// Model decides on the call in this process, as its script does in Redis, at
// nowMicros microseconds since the epoch. It returns the state that follows and
// the reply; an error's text is the reply, and the state stays.
func (c *Call) Model(state State, nowMicros int64) (State, []int64, error) {
	return c.command.model(c, state, nowMicros)
}

func appendArrayHeader(dst []byte, n int) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

func appendBulk[T string | []byte](dst []byte, b T) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(b)), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, b...)
	return append(dst, '\r', '\n')
}
