package proxy

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"
)

// victims says which clients CLIENT KILL ends.
type victims struct {
	id       int64 // 0: any
	only     string
	user     string
	addr     string
	laddr    string
	sparesMe bool
	byAddr   bool // the old form, whose reply is a status
}

// kill handles CLIENT KILL: it ends clients of the proxy instead of the connections
// that these share. What names none of them is for the upstream.
func (s *session) kill(cmd redcon.Command) {
	v, ok := parseVictims(cmd.Args[2:])
	if !ok {
		s.forward(cmd)
		return
	}
	var private map[int64]string
	if v.only != "" {
		reply, err := s.ask(s.stream, listCommand)
		if err != nil {
			return
		}
		private = connectionLines(reply)
	}
	mine := s.server.clients.victims(v, s, private)
	if len(mine) == 0 && (v.id != 0 || v.user != "" || v.byAddr) {
		s.forward(cmd)
		return
	}
	// The upstream refuses this for a reason of no matter unless the client may
	// not kill at all.
	refusal, err := s.ask(s.stream, []byte("*4\r\n$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n$1\r\n0\r\n"))
	if err != nil {
		return
	}
	if !bytes.HasPrefix(refusal, []byte("-ERR ")) {
		s.reply(refusal)
		return
	}
	if v.byAddr {
		s.reply(replyOK)
	} else {
		s.reply(redcon.AppendInt(nil, int64(len(mine))))
	}
	for _, other := range mine {
		if other != s {
			other.out.cut()
			continue
		}
		s.quit = true
		s.out.endAfter()
	}
}

// victims returns the clients that v says, asked by asker. private is what the
// upstream says of connections, if their types matter.
func (c *clients) victims(v victims, asker *session, private map[int64]string) (found []*session) {
	for _, other := range c.all() {
		switch {
		case v.id != 0 && v.id != other.id:
		case v.sparesMe && other == asker:
		case v.user != "" && v.user != other.shown.Load().user():
		case v.addr != "" && v.addr != other.conn.RemoteAddr().String():
		case v.laddr != "" && v.laddr != other.conn.LocalAddr().String():
		case v.only != "" && (v.only == "PUBSUB") != isSubscriber(other.line(private)):
		default:
			found = append(found, other)
		}
	}
	return found
}

// parseVictims reads the arguments of CLIENT KILL. It reports false if the
// upstream is to be asked instead: for what is wrong, or about its replicas.
func parseVictims(args [][]byte) (v victims, ok bool) {
	switch len(args) {
	case 0:
		return v, false
	case 1:
		return victims{addr: string(args[0]), byAddr: true}, true
	}
	v.sparesMe = true
	for ; len(args) >= 2; args = args[2:] {
		value := string(args[1])
		switch strings.ToUpper(string(args[0])) {
		case "ID":
			var err error
			if v.id, err = strconv.ParseInt(value, 10, 64); err != nil || v.id <= 0 {
				return v, false
			}
		case "TYPE":
			v.only = strings.ToUpper(value)
			if v.only != "NORMAL" && v.only != "PUBSUB" {
				return v, false
			}
		case "USER":
			v.user = value
		case "ADDR":
			v.addr = value
		case "LADDR":
			v.laddr = value
		case "SKIPME":
			v.sparesMe = strings.EqualFold(value, "yes")
			if !v.sparesMe && !strings.EqualFold(value, "no") {
				return v, false
			}
		default:
			return v, false
		}
	}
	return v, len(args) == 0
}
