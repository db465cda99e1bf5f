package commands

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
)

// Script is the Lua side of a limiter command.
type Script struct {
	// Source is the script's text.
	Source string
	// SHA1 names the script to EVALSHA: 40 hexadecimal digits in lower case.
	SHA1 string

	// What follows the number of words in the two forms of a run, as far as the
	// key.
	evalSHA, eval []byte
}

func newScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	s := &Script{Source: source, SHA1: hex.EncodeToString(sum[:])}
	s.evalSHA = fmt.Appendf(nil, "\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n", s.SHA1)
	s.eval = fmt.Appendf(nil, "\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n1\r\n", len(source), source)
	return s
}

// Scripts returns every script of the commands once. A connection on which
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
