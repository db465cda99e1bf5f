package proxy

import (
	"bytes"
	"strconv"
	"strings"
)

// clientInfo is what CLIENT INFO tells of a connection. The zero value is that
// of one of which nothing is known.
type clientInfo struct {
	flags    string
	name     string
	db       int
	protocol int
}

// parseClientInfo reads the reply to CLIENT INFO, a bulk or verbatim string.
func parseClientInfo(reply []byte) (info clientInfo) {
	header, line, _ := bytes.Cut(reply, []byte("\r\n"))
	if len(header) == 0 || header[0] != '$' && header[0] != '=' {
		return info
	}
	for _, field := range strings.Fields(strings.TrimPrefix(string(line), "txt:")) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "flags":
			info.flags = value
		case "name":
			info.name = value
		case "db":
			info.db, _ = strconv.Atoi(value)
		case "resp":
			info.protocol, _ = strconv.Atoi(value)
		}
	}
	return info
}

// isPlain reports whether the connection has nothing of its own but what the
// proxy keeps account of: its only flags are N, for none, and U, for a unix
// socket. Before Redis 7.0 nothing is said of the protocol.
func (i clientInfo) isPlain() bool {
	return i.flags != "" && strings.Trim(i.flags, "NU") == "" && i.protocol != 0
}

// subscribed reports whether there may be subscriptions.
func (i clientInfo) subscribed() bool {
	return i.flags == "" || strings.Contains(i.flags, "P")
}
