package commands

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Script is the Lua side of a limiter command.
type Script struct {
	// Source is the script's text.
	Source string
	// SHA1 names the script to EVALSHA: 40 hexadecimal digits in lower case.
	SHA1 string

	// Batch is the script that runs this one many times, or nil.
	Batch *Script

	// What follows the number of words in the two forms of a run, as far as the
	// number of keys.
	evalSHA, eval []byte
}

//go:embed batch.lua
var batchSource string

// newScript makes a script and its Batch.
func newScript(source string) *Script {
	s := newSingle(source)
	s.Batch = newSingle(strings.Replace(batchSource, "\n...\n", "\n"+source, 1))
	return s
}

func newSingle(source string) *Script {
	sum := sha1.Sum([]byte(source))
	s := &Script{Source: source, SHA1: hex.EncodeToString(sum[:])}
	s.evalSHA = fmt.Appendf(nil, "\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n", s.SHA1)
	s.eval = fmt.Appendf(nil, "\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n", len(source), source)
	return s
}

// AppendRuns appends the beginning of so many runs in one command, which the
// keys and then the arguments of all, so many for each, are to follow. More than
// one is a run of Batch.
func (s *Script) AppendRuns(dst []byte, runs, arguments int) []byte {
	if runs > 1 {
		s = s.Batch
	}
	return s.appendHead(dst, s.evalSHA, runs, arguments)
}

func (s *Script) appendHead(dst, head []byte, runs, arguments int) []byte {
	const words = 3 // EVAL, the script, the number of keys
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(words+runs*(1+arguments)), 10)
	dst = append(dst, head...)
	return appendInteger(dst, int64(runs))
}

// Scripts returns every script of the commands once, without those of their
// batches. A connection on which
// they are loaded answers limiter commands without a NOSCRIPT.
func Scripts() []*Script {
	var scripts []*Script
	seen := make(map[string]bool)
	for _, command := range table {
		if !seen[command.Script.SHA1] {
			seen[command.Script.SHA1] = true
			scripts = append(scripts, command.Script)
		}
	}
	return scripts
}
