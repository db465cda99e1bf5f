package commands

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
)

// Script is a Lua script of one or more commands.
type Script struct {
	Source string
	SHA1   string // 40 lower-case hexadecimal digits, as EVALSHA takes it
}

func newScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{Source: source, SHA1: hex.EncodeToString(sum[:])}
}

// EvalFromEvalSHA returns the EVAL that does the same as an EVALSHA made by
// AppendEvalSHA, for an upstream that has lost the script; nil if it is not one
// of those.
func EvalFromEvalSHA(evalsha []byte) []byte {
	name := []byte("\r\n$7\r\nEVALSHA\r\n$40\r\n")
	header, rest, ok := bytes.Cut(evalsha, name)
	if !ok || len(rest) < 42 {
		return nil
	}
	for _, script := range Scripts() {
		if string(rest[:40]) == script.SHA1 {
			eval := append(bytes.Clone(header), '\r', '\n')
			eval = appendBulk(eval, "EVAL")
			eval = appendBulk(eval, script.Source)
			return append(eval, rest[42:]...)
		}
	}
	return nil
}
