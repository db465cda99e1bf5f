package proxy

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tidwall/redcon"
)

// probe finds, among all that a wire brings, the replies to what the proxy
// itself has sent there: a command that Redis does not know, perhaps, and then
// RESET. Both are answered with a line, in whatever state a connection is.
type probe struct {
	mark   []byte // the command
	marked bool   // it has been answered
	done   bool   // RESET has been answered
}

func newProbe(id int64) *probe {
	return &probe{mark: fmt.Appendf(nil, "cellproxy:%d", id)}
}

// command is what Redis does not know.
func (p *probe) command() redcon.Command { return encode([][]byte{p.mark}) }

// take takes a piece of what came, first says the beginning of a reply, and
// returns what is for the client.
func (p *probe) take(b []byte, first bool) []byte {
	switch {
	case p.done || !first:
		return b
	case bytes.Equal(b, replyReset):
		p.done = true
		return nil
	case !p.marked && b[0] == '-' && bytes.Contains(b, p.mark):
		p.marked = true
		return nil
	}
	return b
}

var replyReset = []byte("+RESET\r\n")

// setProbe has the probe look at all that comes from now on.
func (o *output) setProbe(p *probe) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probe = p
}

// awaitProbe waits until the probe is done, for at most d.
func (o *output) awaitProbe(d time.Duration) {
	o.waitFor(d, func() bool { return o.probe.done })
}
