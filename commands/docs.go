package commands

import (
	"strconv"
	"strings"
)

// encoder writes RESP, 2 or 3. In RESP2 sets and maps are arrays.
type encoder struct {
	b        []byte
	protocol int
}

func (e *encoder) header(mark byte, n int) {
	e.b = append(e.b, mark)
	e.b = strconv.AppendInt(e.b, int64(n), 10)
	e.b = append(e.b, '\r', '\n')
}

func (e *encoder) array(n int) { e.header('*', n) }

func (e *encoder) integer(n int) { e.header(':', n) }

func (e *encoder) set(n int) {
	if e.protocol == 3 {
		e.header('~', n)
	} else {
		e.header('*', n)
	}
}

func (e *encoder) dict(n int) {
	if e.protocol == 3 {
		e.header('%', n)
	} else {
		e.header('*', 2*n)
	}
}

func (e *encoder) bulk(text string) {
	e.header('$', len(text))
	e.b = append(e.b, text...)
	e.b = append(e.b, '\r', '\n')
}

// statuses writes a set of words.
func (e *encoder) statuses(words ...string) {
	e.set(len(words))
	for _, word := range words {
		e.b = append(e.b, '+')
		e.b = append(e.b, word...)
		e.b = append(e.b, '\r', '\n')
	}
}

// field writes a name and a text.
func (e *encoder) field(name, text string) {
	e.bulk(name)
	e.bulk(text)
}

// Categories are the ACL categories of every limiter command: those of the
// script it becomes and of what that does. It is the upstream that applies
// them.
var Categories = []string{"write", "scripting", "slow"}

// AppendInfo appends the command's entry in the reply to COMMAND or COMMAND
// INFO, in RESP2 or RESP3: the name, the arity, flags, where the key is, and
// so on, as Redis 7 tells them.
func (c *Command) AppendInfo(dst []byte, protocol int) []byte {
	e := encoder{dst, protocol}
	e.array(10)
	e.bulk(strings.ToLower(c.Name))
	e.integer(c.Arity)
	e.statuses("write", "denyoom", "noscript")
	for range 3 { // the first and the last key, and the step between keys
		e.integer(1)
	}
	categories := make([]string, len(Categories))
	for i, category := range Categories {
		categories[i] = "@" + category
	}
	e.statuses(categories...)
	e.set(1) // tips
	e.bulk("nondeterministic_output")
	e.set(1) // key specifications
	e.keySpec()
	e.set(0) // subcommands
	return e.b
}

// keySpec says that the first argument, and no other, is a key.
func (e *encoder) keySpec() {
	e.dict(3)
	e.bulk("flags")
	e.statuses("RW", "access", "update")
	e.bulk("begin_search")
	e.dict(2)
	e.field("type", "index")
	e.bulk("spec")
	e.dict(1)
	e.bulk("index")
	e.integer(1)
	e.bulk("find_keys")
	e.dict(2)
	e.field("type", "range")
	e.bulk("spec")
	e.dict(3)
	for _, field := range []struct {
		name  string
		value int
	}{{"lastkey", 0}, {"keystep", 1}, {"limit", 0}} {
		e.bulk(field.name)
		e.integer(field.value)
	}
}

// AppendDocs appends the command's name and entry in the reply to COMMAND
// DOCS, in RESP2 or RESP3.
func (c *Command) AppendDocs(dst []byte, protocol int) []byte {
	e := encoder{dst, protocol}
	e.bulk(strings.ToLower(c.Name))
	e.dict(3)
	e.field("summary", c.Summary)
	e.field("group", "module")
	e.bulk("arguments")
	e.arguments(c.Arguments)
	return e.b
}

func (e *encoder) arguments(arguments []Argument) {
	e.array(len(arguments))
	for _, argument := range arguments {
		e.argument(argument)
	}
}

func (e *encoder) argument(a Argument) {
	var flags []string
	if a.Optional {
		flags = append(flags, "optional")
	}
	if a.Multiple {
		flags = append(flags, "multiple")
	}
	fields := 2
	for _, present := range []bool{a.Type == "key", a.Token != "", len(flags) > 0, len(a.Arguments) > 0} {
		if present {
			fields++
		}
	}
	e.dict(fields)
	e.field("name", a.Name)
	e.field("type", a.Type)
	if a.Type == "key" {
		e.bulk("key_spec_index")
		e.integer(0)
	}
	if a.Token != "" {
		e.field("token", a.Token)
	}
	if len(flags) > 0 {
		e.bulk("flags")
		e.statuses(flags...)
	}
	if len(a.Arguments) > 0 {
		e.bulk("arguments")
		e.arguments(a.Arguments)
	}
}

// Fits reports whether a command of so many words, its name among them, has
// the right number of them.
func (c *Command) Fits(words int) bool {
	return words >= -c.Arity && (c.maxWords == 0 || words <= c.maxWords)
}
