package proxy

import (
	"sync/atomic"

	"cellproxy/backend"
	"cellproxy/commands"
)

// otherKind is the kind of a request that is no limiter command; those are of
// the kinds behind it, in the order of the table.
const otherKind = 0

// stripes is how many places the requests are counted in, so that processors
// do not wait for each other.
const stripes = 16

// counters are what a Server counts.
type counters struct {
	requests [stripes]struct {
		kinds []atomic.Uint64
		_     [64]byte // another line of the cache
	}
	tallies []backend.Tally  // by kind
	unseen  []atomic.Uint64  // by kind
	topKeys *backend.TopKeys // or nil

	accepted, full, malformed, unread, panics, wrongPasswords atomic.Uint64
}

func (c *counters) init(topKeys bool) {
	kinds := 1 + len(commands.All())
	for i := range c.requests {
		c.requests[i].kinds = make([]atomic.Uint64, kinds)
	}
	c.tallies = make([]backend.Tally, kinds)
	c.unseen = make([]atomic.Uint64, kinds)
	if topKeys {
		c.topKeys = new(backend.TopKeys)
		for i := range c.tallies {
			c.tallies[i].Keys = c.topKeys
		}
	}
}

// replyLimited begins a reply that tells of a refusal.
var replyLimited = []byte("*5\r\n:1\r\n")

// counting gathers a session's requests of the same kind for one addition.
type counting struct {
	kind int
	n    uint64
}

// count counts a request.
func (s *session) count(kind int) {
	if s.counting.kind != kind {
		s.flushCount()
		s.counting.kind = kind
	}
	s.counting.n++
}

// flushCount makes the requests known. It is called before any of them can
// have been answered.
func (s *session) flushCount() {
	if s.counting.n > 0 {
		s.server.counters.requests[s.id%stripes].kinds[s.counting.kind].Add(s.counting.n)
		s.counting.n = 0
	}
}

// Stats are what a Server has done up to a moment, and how it is then.
type Stats struct {
	// Limiters are what was asked of the limiter commands, by name.
	Limiters []LimiterStats
	// Others is how many other requests there were.
	Others uint64
	// Accepted is how many clients have connected.
	Accepted uint64
	// Shared, Private and Wires are the clients that are connected: on the
	// connections that they share, on one of their own, and on one of their own
	// that everything is passed through of, such as after SUBSCRIBE.
	Shared, Private, Wires int
	// Full is how many clients were too many, Malformed how many sent what is
	// not RESP or too large, Unread how many did not read their replies.
	Full, Malformed, Unread uint64
	// WrongPasswords is how often somebody gave the proxy one, Panics how many
	// sessions ended by a mistake in cellproxy.
	WrongPasswords, Panics uint64
}

// LimiterStats are what a limiter command was asked and has answered. Requests
// under way are the difference.
type LimiterStats struct {
	Name                      string
	Requests                  uint64
	Admitted, Limited, Failed uint64
	// Unseen were in transactions, or on connections that everything is passed
	// through of.
	Unseen uint64
}

// Stats returns them.
func (s *Server) Stats() Stats {
	c := &s.counters
	stats := Stats{
		Accepted: c.accepted.Load(), Full: c.full.Load(), Malformed: c.malformed.Load(), Unread: c.unread.Load(),
		WrongPasswords: c.wrongPasswords.Load(), Panics: c.panics.Load(),
	}
	for i, command := range commands.All() {
		t := &c.tallies[i+1]
		l := LimiterStats{
			Name: command.Name, Admitted: t.Admitted.Load(), Limited: t.Limited.Load(), Failed: t.Failed.Load(),
			Unseen: c.unseen[i+1].Load(),
		}
		l.Requests = c.sum(i + 1) // last: what was answered was asked before
		stats.Limiters = append(stats.Limiters, l)
	}
	stats.Others = c.sum(otherKind)
	for _, client := range s.clients.all() {
		switch private := client.out.privateConn(); {
		case private == nil:
			stats.Shared++
		case private.PassesThrough():
			stats.Wires++
		default:
			stats.Private++
		}
	}
	return stats
}

// TopKeys returns the keys that limiter commands are called with most, or nil if
// Config does not ask for them.
func (s *Server) TopKeys() *backend.TopKeys { return s.counters.topKeys }

// Serving reports whether the server listens and is not shutting down.
func (s *Server) Serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != nil && !s.draining
}

// sum is how many requests of a kind there were.
func (c *counters) sum(kind int) (n uint64) {
	for i := range c.requests {
		n += c.requests[i].kinds[kind].Load()
	}
	return n
}
