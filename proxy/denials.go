package proxy

import (
	"hash/maphash"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
	"cellproxy/commands"
)

// effects are those of commands that are not Writes, by their upper-case names.
var effects = map[string]backend.Effect{
	"SWAPDB": backend.WritesUntold, "ACL": backend.WritesUntold,

	"PING": backend.Reads, "ECHO": backend.Reads, "TIME": backend.Reads, "INFO": backend.Reads,
	"COMMAND": backend.Reads, "CLIENT": backend.Reads, "HELLO": backend.Reads, "SELECT": backend.Reads,
	"GET": backend.Reads, "MGET": backend.Reads, "STRLEN": backend.Reads, "GETRANGE": backend.Reads,
	"EXISTS": backend.Reads, "TTL": backend.Reads, "PTTL": backend.Reads, "TYPE": backend.Reads,
	"HGET": backend.Reads, "HMGET": backend.Reads, "HGETALL": backend.Reads, "HEXISTS": backend.Reads, "HLEN": backend.Reads,
	"LLEN": backend.Reads, "LRANGE": backend.Reads, "LINDEX": backend.Reads,
	"SCARD": backend.Reads, "SISMEMBER": backend.Reads, "SMEMBERS": backend.Reads,
	"ZCARD": backend.Reads, "ZSCORE": backend.Reads, "ZRANGE": backend.Reads, "ZRANK": backend.Reads, "ZCOUNT": backend.Reads,
	"SCAN": backend.Reads, "HSCAN": backend.Reads, "SSCAN": backend.Reads, "ZSCAN": backend.Reads,
	"KEYS": backend.Reads, "DBSIZE": backend.Reads, "PUBLISH": backend.Reads,
}

// effectOf returns what a command does to keys.
func effectOf(name []byte) backend.Effect {
	var upper [longestName]byte
	if len(name) > len(upper) {
		return backend.Writes
	}
	return effects[string(appendUpper(upper[:0], name))]
}

// forwardWithEffect is forward where refusals are kept. A command of the proxy's
// own may have no arguments beside its bytes.
func (s *session) forwardWithEffect(cmd redcon.Command) {
	effect := backend.Writes
	if len(cmd.Args) > 0 {
		effect = effectOf(cmd.Args[0])
	}
	if effect != backend.Reads {
		s.sent.noteWrite()
	}
	s.add(backend.Request{Bytes: cmd.Raw, Effect: effect})
}

// deny answers a limiter command if it is known to be refused. What the session
// itself has under way must come first.
func (s *session) deny(call *commands.Call) bool {
	s.out.mu.Lock()
	answered, owed := s.out.answered, s.out.owed
	s.out.mu.Unlock()
	s.sent.settle(answered, owed+len(s.requests))
	if !s.sent.mayChange(call.Key()) {
		if reply, ok := s.stream.Denied(call); ok {
			s.reply(reply)
			return true
		}
	}
	s.sent.note(call.Key())
	return false
}

// sent is what a session may have under way that changes keys, more or less: it
// may take a key for one that is. The zero sent is nothing.
type sent struct {
	late, early keySet
	// When so many replies have been answered, all of early has been.
	turn uint64
}

// keySet is a set of keys that may seem to hold more than it does.
type keySet struct {
	used  bool
	every bool
	bits  [8]uint64
}

// keySeed is of the hashes of keySets.
var keySeed = maphash.MakeSeed()

// settle drops what has been answered: so many replies have been, and so many
// are to come.
func (s *sent) settle(answered uint64, coming int) {
	if !s.late.used && !s.early.used {
		return
	}
	if coming == 0 {
		*s = sent{}
	} else if answered >= s.turn {
		s.early, s.late = s.late, keySet{}
		s.turn = answered + uint64(coming)
	}
}

// note adds the key of a command that is about to be sent.
func (s *sent) note(key []byte) {
	h := maphash.Bytes(keySeed, key)
	s.late.used = true
	s.late.bits[h>>6&7] |= 1 << (h & 63)
}

// noteWrite adds every key.
func (s *sent) noteWrite() {
	s.late.used, s.late.every = true, true
}

// mayChange reports whether what is under way may change a key.
func (s *sent) mayChange(key []byte) bool {
	if !s.late.used && !s.early.used {
		return false
	}
	h := maphash.Bytes(keySeed, key)
	return s.late.every || s.early.every || (s.late.bits[h>>6&7]|s.early.bits[h>>6&7])>>(h&63)&1 == 1
}
