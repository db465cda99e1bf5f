package backend

import (
	"bytes"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"cellproxy/commands"
)

// The cache of refusals
//
// A limiter that refuses a request changes nothing: until its key changes, the
// next request of the same kind is refused too, and all numbers of the reply
// follow from the key's value and the time. So for a key that is over its limit
// the proxy can answer by itself, and give the reply that the upstream would
// have given, if it knows four things:
//
// The value. When a key was refused twice, a watcher reads it with GET, on a
// connection of its own that has CLIENT TRACKING ON: the upstream then pushes a
// message on that connection when the key changes, expires, is evicted or
// flushed. The message comes behind the reply to the GET if the change came
// behind the GET, so between the two the value is known. PTTL says until when
// the key is there at least: its expiry may be noticed late, by the upstream
// too.
//
// That no message is on its way. A change by others than this proxy is known
// here a little later than to whoever made it. The watcher asks for the TIME
// every so often; the answer comes behind all messages about earlier changes.
// A refusal is only given if the last TIME was asked for at most maxUnheard
// ago, so none is older than that, however slow or dead the connection is.
// Changes through this proxy are known at once: before a client is given the
// reply to a limiter command that may have changed a key, that key is dropped;
// before it is given the reply to any other command that may have changed
// something, all refusals are put off until a TIME asked for later has been
// answered. So a request that is sent after the reply to a change was received,
// both through this proxy, is answered from what is since.
//
// The time. The upstream's clock is known from TIME, within an interval: see
// upstreamClock. A refusal is only given if the reply is the same at every
// moment of that interval; at the edge of a second the upstream is asked.
//
// That the client may ask. The cache belongs to one stream, that is to one user
// and database, and a key comes into it when the upstream has refused a request
// of just that user for it, with a reply, not an error. Of what it does not tell
// of, rights taken away and SWAPDB, the cache learns if it happens through
// this proxy; else when the key is read again, after maxDenialAge at most.
//
// All it can do wrong is to refuse a little too long. It never admits.

const (
	// maxUnheard is how long ago the upstream must have been heard for a refusal
	// to be given in its place; from heardEvery on it is asked.
	maxUnheard = int64(200 * time.Millisecond)
	heardEvery = int64(20 * time.Millisecond)
	// maxDenialAge is for how long a key is known after it was read.
	maxDenialAge = int64(time.Minute)
	// maxDenialBytes bounds what one cache keeps, with denialOverhead for each key
	// besides its name. Longer names, and longer replies to GET, are not kept.
	maxDenialBytes = 64 << 20
	denialOverhead = 320
	maxDenialKey   = 1 << 10
	maxDenialValue = 64
)

// Effect says what a command may do to keys, as far as refusals are kept.
type Effect uint8

const (
	// Writes is that of any command that is not known to be otherwise.
	Writes Effect = iota
	// Reads changes nothing.
	Reads
	// WritesUntold may change what the upstream does not tell watchers of.
	WritesUntold
)

// denials are the caches of refusals of a Backend's streams. A nil denials is
// none.
type denials struct {
	caches atomic.Pointer[[]*denyCache] // replaced under Backend.mu
	writes atomic.Uint64                // replies to commands that may have changed anything
	given  atomic.Int64                 // refusals
}

func (d *denials) all() []*denyCache {
	if caches := d.caches.Load(); caches != nil {
		return *caches
	}
	return nil
}

// of returns the cache for an identity, whatever its protocol, or nil.
func (d *denials) of(id Identity) *denyCache {
	if d == nil {
		return nil
	}
	id.Protocol = 3
	for _, c := range d.all() {
		if c.id == id {
			return c
		}
	}
	return nil
}

// keepDenials returns the cache for a new stream, which is to drop it; b.mu is
// held.
func (b *Backend) keepDenials(id Identity) *denyCache {
	if b.denials == nil {
		return nil
	}
	c := b.denials.of(id)
	if c == nil {
		c = newDenyCache(b, id)
		caches := append(slices.Clone(b.denials.all()), c)
		b.denials.caches.Store(&caches)
		if !b.closed {
			b.tasks.Go(c.watch)
		}
	}
	c.streams++
	return c
}

func (b *Backend) dropDenials(c *denyCache) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropDenialsLocked(c)
}

func (b *Backend) dropDenialsLocked(c *denyCache) {
	if c == nil {
		return
	}
	c.streams--
	if c.streams == 0 {
		caches := slices.DeleteFunc(slices.Clone(b.denials.all()), func(other *denyCache) bool { return other == c })
		b.denials.caches.Store(&caches)
		c.close()
	}
}

// wrote is called before a client is given the reply to a command that is no
// limiter's.
func (d *denials) wrote(effect Effect) {
	switch effect {
	case Reads:
		return
	case WritesUntold:
		for _, c := range d.all() {
			c.clear()
		}
	}
	d.writes.Add(1)
}

// forget drops a key that may have changed.
func (d *denials) forget(db int, key []byte) {
	for _, c := range d.all() {
		if c.id.DB == db {
			c.forget(key)
		}
	}
}

// beginsLimited begins the reply to a call that was refused.
var beginsLimited = []byte("*5\r\n:1\r\n")

// tellDenials is called with the end of each reply before its sink is given it,
// if refusals are kept.
func (l *link) tellDenials(o *owed, part []byte) {
	if len(o.limiter) == 0 {
		l.denials.wrote(o.effect)
		return
	}
	command, key := commands.RawName(o.limiter)
	switch {
	case command == nil:
		l.denials.wrote(Writes)
	case command.Lasting() && bytes.HasPrefix(part, beginsLimited):
		if l.cache != nil {
			l.cache.refused(key)
		}
	default: // admitted, an error, not in one piece, or not to be delivered
		l.denials.forget(l.db, key)
	}
}

// lostDenials is called before what the link owes is answered with an error.
func (l *link) lostDenials() {
	if l.inFlight.Load() > 0 {
		l.denials.wrote(Writes)
	}
	if l.cache != nil {
		l.cache.disconnect() // the next connection may lead to another server
	}
}

// KeepsDenials reports whether refusals are kept, for Lane.Denied to give.
func (b *Backend) KeepsDenials() bool {
	return b.denials != nil
}

// Denied implements Lane.
func (s *Stream) Denied(call *commands.Call) (reply []byte, ok bool) {
	if s.cache == nil || s.backend.Down() != nil {
		return nil, false
	}
	return s.cache.answer(call)
}

// Denials returns how many refusals were given without asking the upstream.
func (b *Backend) Denials() int64 {
	if b.denials == nil {
		return 0
	}
	return b.denials.given.Load()
}

// denial is a key that is over its limit.
type denial struct {
	key     string
	value   string // empty: there is no such key
	expires int64  // not before that moment of the upstream's clock, in microseconds
	readAt  int64  // own time
	known   bool   // it has been read
}

// refused is called when the upstream has refused a call for a key.
func (c *denyCache) refused(key []byte) {
	if len(key) > maxDenialKey {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off || c.denials[string(key)] != nil || len(c.unread) >= maxUnread || !c.again(key) {
		return
	}
	d := &denial{key: string(key)}
	c.denials[d.key] = d
	c.size += d.bytes()
	if c.size > c.most {
		c.makeRoom()
	}
	c.unread = append(c.unread, d)
	c.wake()
}

// makeRoom drops keys by chance: one that is asked for again is soon back. c.mu
// is held.
func (c *denyCache) makeRoom() {
	for _, d := range c.denials { // in random order
		if c.size <= c.most {
			break
		}
		c.remove(d)
	}
}

func (d *denial) bytes() int { return len(d.key) + denialOverhead }

// remove drops a key; c.mu is held.
func (c *denyCache) remove(d *denial) {
	if c.denials[d.key] == d {
		delete(c.denials, d.key)
		c.size -= d.bytes()
	}
}

func (c *denyCache) forget(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.denials[string(key)]; d != nil {
		c.remove(d)
	}
}

// clear drops all keys.
func (c *denyCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearLocked()
}

func (c *denyCache) clearLocked() {
	c.denials = make(map[string]*denial)
	c.size, c.unread = 0, nil
}

// answer returns the reply to a call that is refused.
func (c *denyCache) answer(call *commands.Call) ([]byte, bool) {
	value, from, to, ok := c.find(call.Key())
	if !ok {
		return nil, false
	}
	reply, ok := call.AppendRefusal(make([]byte, 0, 64), commands.State{Exists: value != "", Value: value}, from, to)
	if ok {
		c.all.given.Add(1)
	}
	return reply, ok
}

// find returns the value of a key, if that is known, and the interval that the
// time at the upstream is in, in microseconds since the epoch.
func (c *denyCache) find(key []byte) (value string, from, to int64, ok bool) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.denials[string(key)]
	if d == nil || !d.known {
		return "", 0, 0, false
	}
	if age := now - d.readAt; age < 0 || age > maxDenialAge {
		c.remove(d)
		return "", 0, 0, false
	}
	unheard := now - c.heardAt
	current := c.heardWrites == c.all.writes.Load()
	if !current || unheard < 0 || unheard > heardEvery {
		c.ask()
	}
	from, to, ok = c.clock.between(now)
	ok = ok && current && unheard >= 0 && unheard <= maxUnheard && to < d.expires
	return d.value, from, to, ok
}

// expiry returns the moment, in microseconds, before which a key is sure to be
// there that had so many milliseconds left after a moment. It has until the end
// of the last of them. A negative number says that it does not expire, or that
// there is no key.
func expiry(micros, ttlMillis int64) int64 {
	if ttlMillis < 0 {
		return math.MaxInt64
	}
	return (micros/1000 + ttlMillis + 1) * 1000
}
