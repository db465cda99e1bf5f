package backend

import (
	"bytes"
	"fmt"
	"strings"
)

// ReplyError is an error reply with which the upstream refused a connection:
// a wrong password, a database out of range.
type ReplyError struct {
	// Line is the reply as it was sent, terminator included.
	Line []byte
}

func (e *ReplyError) Error() string {
	return strings.TrimSpace(strings.TrimPrefix(string(e.Line), "-"))
}

// LostReply is the reply to a command that was sent upstream and whose
// connection ended before it was answered.
func LostReply(err error) []byte {
	return errorLine(lostText, err)
}

const lostText = "ERR upstream connection lost before the reply, the command may have been run"

// isLost reports whether an error reply is one of LostReply.
func isLost(line []byte) bool {
	return bytes.HasPrefix(line[1:], []byte(lostText))
}

// UnavailableReply is the reply to a command that was not sent, because there
// is no upstream connection.
func UnavailableReply(err error) []byte {
	return errorLine("ERR upstream unavailable, the command was not run", err)
}

func errorLine(what string, err error) []byte {
	reason := strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error())
	return fmt.Appendf(nil, "-%s: %s\r\n", what, reason)
}
