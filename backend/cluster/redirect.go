package cluster

import (
	"net"
	"strconv"
	"strings"
)

// Refusal says why a node has not run a command.
type Refusal int

// The refusals. All but NotRefused mean that another time, or another node, may
// run the command.
const (
	NotRefused Refusal = iota
	Moved              // the slot is another node's
	Ask                // the keys have gone to another node already, the slot not
	NotNow             // some keys of the command have gone and some have not, or the cluster is not whole
)

// Redirect is where a node says that a command belongs.
type Redirect struct {
	Slot int
	Addr string
}

// notNow begins the errors that mean NotNow.
var notNow = []string{"-TRYAGAIN ", "-CLUSTERDOWN ", "-LOADING "}

// ParseError tells what an error reply of the node at origin means.
func ParseError(line []byte, origin string) (Refusal, Redirect) {
	text := string(line[:min(len(line), 512)])
	for _, prefix := range notNow {
		if strings.HasPrefix(text, prefix) {
			return NotNow, Redirect{}
		}
	}
	refusal := NotRefused
	switch {
	case strings.HasPrefix(text, "-MOVED "):
		refusal = Moved
	case strings.HasPrefix(text, "-ASK "):
		refusal = Ask
	default:
		return NotRefused, Redirect{}
	}
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return NotRefused, Redirect{}
	}
	slot, err := strconv.Atoi(fields[1])
	colon := strings.LastIndexByte(fields[2], ':')
	if err != nil || slot < 0 || slot >= Slots || colon < 0 {
		return NotRefused, Redirect{}
	}
	host, port := strings.Trim(fields[2][:colon], "[]"), fields[2][colon+1:]
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return NotRefused, Redirect{}
	}
	addr := Addr(host, port, origin)
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return NotRefused, Redirect{}
	}
	return refusal, Redirect{slot, addr}
}
