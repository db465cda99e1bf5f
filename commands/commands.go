// Package commands is the meaning of the limiter commands: their grammar, the
// Lua scripts that they become, and the algorithms once more in Go.
//
// A limiter command is a macro. Parse checks it, and AppendEvalSHA writes the
// one EVALSHA that takes its place: one key, one atomic run, the finished
// reply. All arithmetic on the arguments is done here, exactly, so that the
// scripts get finished pieces. Model is the same step in Go, on a state and a
// moment that the caller gives: the scripts are tested against it, and it can
// stand in for them when there is no Redis.
//
// To add a command, write its .go file with its .lua beside it, add a line to
// the table, and a section to the README.
package commands

// table lists every limiter command. It is the only index: what is not here
// does not exist.
var table = []*Command{
	clThrottle,
	fwAcquire,
	swAcquire,
	slAcquire,
	tbAcquire,
	lbAcquire,
}

// Command is one limiter command.
type Command struct {
	// Name is the command's name in upper case.
	Name string
	// Arity is the number of words with the name as COMMAND reports it: a
	// negative one is the least number.
	Arity int
	// Summary says in one line what the command is for.
	Summary string
	// Usage is the command with its arguments, as a user writes it.
	Usage string
	// Arguments describes the arguments as COMMAND DOCS does.
	Arguments []Argument
	// Seconds says that the reply's times are whole seconds, not milliseconds.
	Seconds bool
	// Script is what runs in Redis.
	Script *Script

	maxWords int // 0: no most number of words
	parse    func(args [][]byte, call *Call) error
	model    func(call *Call, state State, nowMicros int64) (State, []int64, error)
	refusal  refusalFunc // nil: see AppendRefusal
}

// Argument is one argument of a command, in the terms of COMMAND DOCS.
type Argument struct {
	Name string
	// Type is "key", "integer", "pure-token", "oneof" or "block".
	Type string
	// Token is the word that stands for the argument or before it, if any.
	Token              string
	Optional, Multiple bool
	// Arguments are the parts of a block, or the choices of a oneof.
	Arguments []Argument
}

// All returns every limiter command, in the order of the table.
func All() []*Command { return table }

// Lookup returns the limiter command of a name in any letter case, or nil. It
// does not allocate.
func Lookup(name []byte) *Command {
	for _, command := range table {
		if equalFold(name, command.Name) {
			return command
		}
	}
	return nil
}

// equalFold reports whether word is upper, which is in upper case, in any
// letter case.
func equalFold(word []byte, upper string) bool {
	if len(word) != len(upper) {
		return false
	}
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}
