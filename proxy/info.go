package proxy

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/redcon"
)

// ownSection is the name of the section that INFO has of the proxy.
const ownSection = "cellproxy"

// describe handles INFO: behind the upstream's sections comes the proxy's own.
// In a transaction, or on a wire, there is only what the upstream says.
func (s *session) describe(cmd redcon.Command) {
	theirs, ours := splitInfo(cmd)
	if !ours || s.sticky || s.multi || s.watching || s.server.config.Backend.Paused() {
		if s.stepAside() {
			s.forward(cmd)
		}
		return
	}
	oursOnly := len(theirs) == 1 && len(cmd.Args) > 1
	if oursOnly {
		theirs = append(theirs, []byte("clients")) // anything, to see whether the client may ask
	}
	reply, err := s.ask(s.stream, encode(theirs).Raw)
	if err != nil {
		return
	}
	_, body, ok := bytes.Cut(reply, []byte("\r\n"))
	if !ok || reply[0] != '$' && reply[0] != '=' {
		s.reply(reply)
		return
	}
	body, verbatim := bytes.CutPrefix(body, []byte("txt:")) // of protocol 3
	text := string(body)
	if oursOnly {
		text = ""
	}
	text += s.server.info()
	if verbatim {
		text = "txt:" + text
	}
	answer := redcon.AppendBulkString(nil, text)
	answer[0] = reply[0]
	s.reply(answer)
}

// splitInfo returns the INFO to send upstream, and whether the proxy's section
// is asked for, too: by its name, or among all others.
func splitInfo(cmd redcon.Command) (theirs [][]byte, ours bool) {
	ours = len(cmd.Args) == 1
	for i, arg := range cmd.Args {
		switch name := strings.ToLower(string(arg)); {
		case i > 0 && name == ownSection:
			ours = true
			continue
		case i > 0 && (name == "all" || name == "everything" || name == "default"):
			ours = true
		}
		theirs = append(theirs, arg)
	}
	return theirs, ours
}

// info returns the proxy's section. Its names begin with cellproxy_, so that none
// is taken for one of the upstream's.
func (s *Server) info() string {
	stats, upstream := s.Stats(), s.config.Backend.Stats()
	var b strings.Builder
	b.WriteString("# Cellproxy\r\n")
	line := func(name string, value any) { fmt.Fprintf(&b, "cellproxy_%s:%v\r\n", name, value) }
	line("version", s.config.Version)
	line("uptime_in_seconds", int(time.Since(s.began).Seconds()))
	line("clients_shared", stats.Shared)
	line("clients_private", stats.Private)
	line("clients_wire", stats.Wires)
	line("clients_accepted", stats.Accepted)
	line("upstream_up", truth(upstream.Up))
	line("upstream_deaths", upstream.Deaths)
	line("upstream_streams", upstream.Streams)
	line("upstream_private_connections", upstream.PrivateInUse)
	line("upstream_in_flight_commands", upstream.InFlight)
	line("failure_policy", upstream.Policy)
	line("failure_policy_answers", upstream.Fallbacks)
	line("other_requests", stats.Others)
	for _, l := range stats.Limiters {
		line("limiter_"+strings.ToLower(l.Name), fmt.Sprintf("requests=%d,admitted=%d,limited=%d,failed=%d,unseen=%d",
			l.Requests, l.Admitted, l.Limited, l.Failed, l.Unseen))
	}
	return b.String()
}

// truth is 1 for what is so.
func truth(so bool) int {
	if so {
		return 1
	}
	return 0
}
