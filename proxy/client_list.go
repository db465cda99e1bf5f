package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
)

// shown is what CLIENT LIST tells of a session that has no connection of its own
// upstream.
type shown struct {
	name     string
	identity backend.Identity
}

// user returns the name of who the upstream takes the session for.
func (s *shown) user() string {
	if s.identity.User == "" {
		return "default"
	}
	return s.identity.User
}

// show publishes what others may see of the session.
func (s *session) show() {
	s.shown.Store(&shown{string(s.name), s.identity})
}

var listCommand = []byte("*2\r\n$6\r\nCLIENT\r\n$4\r\nLIST\r\n")

// list handles CLIENT LIST: it lists the clients of the proxy instead of the
// connections that these share. The upstream says whether the client may ask, and
// what the connections do that are one client's own.
func (s *session) list(cmd redcon.Command) {
	reply, err := s.ask(s.stream, cmd.Raw)
	if err != nil {
		return
	}
	only, ids := listFilter(cmd.Args[2:])
	if reply[0] != '$' && reply[0] != '=' || only == "MASTER" || only == "REPLICA" || only == "SLAVE" {
		s.reply(reply)
		return
	}
	theirs := reply
	if len(cmd.Args) > 2 {
		if theirs, err = s.ask(s.stream, listCommand); err != nil {
			return
		}
	}
	private := connectionLines(theirs)
	var text strings.Builder
	if reply[0] == '=' {
		text.WriteString("txt:")
	}
	for _, other := range s.server.clients.all() {
		line := other.line(private)
		if other == s {
			line = asAsking(line, cmd)
		}
		if ids != nil && !slices.Contains(ids, other.id) || only != "" && (only == "PUBSUB") != isSubscriber(line) {
			continue
		}
		text.WriteString(line + "\n")
	}
	listed := redcon.AppendBulkString(nil, text.String())
	listed[0] = reply[0]
	s.reply(listed)
}

// listFilter returns what the arguments of CLIENT LIST, which the upstream has
// approved of, limit it to.
func listFilter(args [][]byte) (only string, ids []int64) {
	if len(args) < 2 {
		return "", nil
	}
	if strings.EqualFold(string(args[0]), "TYPE") {
		return strings.ToUpper(string(args[1])), nil
	}
	for _, arg := range args[1:] {
		id, _ := strconv.ParseInt(string(arg), 10, 64)
		ids = append(ids, id)
	}
	return "", ids
}

// connectionLines returns the lines of a reply to CLIENT LIST by the number of
// their connection.
func connectionLines(reply []byte) map[int64]string {
	lines := make(map[int64]string)
	_, body, _ := bytes.Cut(reply, []byte("\r\n"))
	for line := range strings.SplitSeq(strings.TrimPrefix(string(body), "txt:"), "\n") {
		if rest, found := strings.CutPrefix(line, "id="); found {
			number, _, _ := strings.Cut(rest, " ")
			if id, err := strconv.ParseInt(number, 10, 64); err == nil {
				lines[id] = line
			}
		}
	}
	return lines
}

// asAsking returns the line of the client that sent cmd, which is what it does.
func asAsking(line string, cmd redcon.Command) string {
	line = strings.Replace(line, " cmd=NULL ", " cmd=client|list ", 1)
	return strings.Replace(line, " qbuf=0 ", fmt.Sprintf(" qbuf=%d ", len(cmd.Raw)), 1)
}

func isSubscriber(line string) bool {
	_, flags, _ := strings.Cut(line, " flags=")
	flags, _, _ = strings.Cut(flags, " ")
	return strings.Contains(flags, "P")
}

// ownFields returns what CLIENT LIST tells of the client itself.
func (s *session) ownFields() map[string]string {
	return map[string]string{
		"id": strconv.FormatInt(s.id, 10), "name": s.shown.Load().name,
		"addr": s.conn.RemoteAddr().String(), "laddr": s.conn.LocalAddr().String(),
		"age": strconv.Itoa(int(time.Since(s.began).Seconds())),
	}
}

// line returns what CLIENT LIST tells of the session: what the
// upstream says of its private connection, if it has one, with the client's
// own addresses; or what the proxy knows.
func (s *session) line(private map[int64]string) string {
	seen, own := s.shown.Load(), s.ownFields()
	if line, found := private[s.out.privateID(false)]; found {
		return withOwnFields(line, own)
	}
	return fmt.Sprintf("id=%s addr=%s laddr=%s fd=-1 name=%s age=%s idle=0 flags=N db=%d sub=0 psub=0 ssub=0 multi=-1 "+
		"qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=NULL user=%s redir=-1 resp=%d",
		own["id"], own["addr"], own["laddr"], own["name"], own["age"], seen.identity.DB, seen.user(), seen.identity.Protocol)
}
