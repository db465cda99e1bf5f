package proxy

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/redcon"
)

// clients knows the sessions by the number that CLIENT ID tells them. The
// numbers are the proxy's own, as sessions share upstream connections; they are
// so large that no upstream has such, and begin at random so that proxies in
// front of the same upstream have different ones. They fit a double.
type clients struct {
	mu   *sync.Mutex
	byID map[int64]*session
	next int64
}

func newClients() clients {
	return clients{
		mu:   new(sync.Mutex),
		byID: make(map[int64]*session),
		next: (1<<16 + rand.Int64N(1<<20)) << 32,
	}
}

func (c *clients) add(s *session) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.byID[c.next] = s
	return c.next
}

func (c *clients) remove(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, s.id)
}

// all returns the sessions in the order of their numbers.
func (c *clients) all() []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	sessions := slices.Collect(maps.Values(c.byID))
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	return sessions
}

// find returns the session of a number in decimal, or nil.
func (c *clients) find(id []byte) *session {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[n]
}

// translate puts the upstream's number of a session's private connection in
// the place of the session's own, where CLIENT takes the number of another
// client: UNBLOCK id, TRACKING … REDIRECT id.
func (c *clients) translate(cmd redcon.Command) redcon.Command {
	at, want := 0, false
	if len(cmd.Args) >= 3 && bytes.EqualFold(cmd.Args[1], []byte("UNBLOCK")) {
		at = 2
	} else if len(cmd.Args) >= 2 && bytes.EqualFold(cmd.Args[1], []byte("TRACKING")) {
		for i := 3; i < len(cmd.Args); i++ {
			if bytes.EqualFold(cmd.Args[i-1], []byte("REDIRECT")) {
				at, want = i, true
			}
		}
	}
	if at == 0 {
		return cmd
	}
	other := c.find(cmd.Args[at])
	if other == nil {
		return cmd
	}
	args := append([][]byte(nil), cmd.Args...)
	args[at] = strconv.AppendInt(nil, other.out.privateID(want), 10)
	return encode(args)
}

// privateID returns the upstream's number of the session's private connection,
// or 0, which is nobody's. want says that the connection is to be kept.
func (o *output) privateID(want bool) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.private == nil {
		return 0
	}
	o.wanted = o.wanted || want
	return o.private.ClientID()
}

// isWanted reports whether somebody else may rely on the private connection.
func (o *output) isWanted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wanted
}

// ownFields are what the upstream says of a connection of its own and is not so for
// the client.
var ownFields = regexp.MustCompile(`\b(id|addr|laddr|name|age)=\S*`)

// upstreamSocket matches what says that a connection upstream is a unix socket.
var upstreamSocket = regexp.MustCompile(`( flags=[A-Za-z]+)U`)

// withOwnFields returns a line of CLIENT LIST or CLIENT INFO with the client's own
// fields.
func withOwnFields(line string, own map[string]string) string {
	line = strings.Replace(line, " flags=U ", " flags=N ", 1)
	line = upstreamSocket.ReplaceAllString(line, "$1")
	return ownFields.ReplaceAllStringFunc(line, func(field string) string {
		key, _, _ := strings.Cut(field, "=")
		return key + "=" + own[key]
	})
}

// info handles CLIENT INFO.
func (s *session) info(cmd redcon.Command) {
	reply, err := s.ask(s.stream, cmd.Raw)
	if err != nil {
		return
	}
	_, line, ok := bytes.Cut(reply, []byte("\r\n"))
	if !ok || reply[0] != '$' && reply[0] != '=' {
		s.reply(reply)
		return
	}
	kind := reply[0]
	text := withOwnFields(string(bytes.TrimSuffix(line, []byte("\r\n"))), s.ownFields())
	patched := redcon.AppendBulkString(nil, text)
	patched[0] = kind
	s.reply(patched)
}
