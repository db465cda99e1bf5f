package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"strconv"
	"sync"
	"time"

	"cellproxy/backend/cluster"
)

const (
	// maxUnread is how many keys may wait to be read; maxRound how many are read
	// at once.
	maxUnread = 4096
	maxRound  = 256
	// rewatchPause is how long no connection is made after one was lost.
	rewatchPause = time.Second
)

// errUntracked says that the upstream does not tell of changes, or not this
// user.
var errUntracked = errors.New("upstream refuses")

// denyCache keeps refusals for one stream, and reads and watches their keys on
// a connection of its own.
type denyCache struct {
	backend *Backend
	all     *denials
	id      Identity
	now     func() int64 // own time, in nanoseconds
	ctx     context.Context
	cancel  context.CancelFunc
	woken   chan struct{}
	streams int // that use it, guarded by backend.mu

	mu      sync.Mutex
	denials map[string]*denial
	size    int       // bytes
	most    int       // of them
	unread  []*denial // to be read
	asked   bool      // TIME is to be read
	off     bool      // the upstream can't be watched
	conn    net.Conn  // nil while there is none
	round   round     // under way
	refusals

	// What is known from the last TIME.
	clock       upstreamClock
	heardAt     int64  // own time at which it was sent
	heardWrites uint64 // all.writes then
}

// round is what is sent to the upstream at once: TIME, then GET and PTTL of
// keys. The next round is sent when all of it has been answered.
type round struct {
	open     bool
	sentAt   int64  // own time
	writes   uint64 // all.writes then
	micros   int64  // what TIME said
	keys     []*denial
	answered int // replies
}

func newDenyCache(b *Backend, id Identity) *denyCache {
	id.Protocol = 3
	c := &denyCache{
		backend: b, all: b.denials, id: id, now: b.config.Now,
		woken: make(chan struct{}, 1), most: maxDenialBytes,
	}
	c.ctx, c.cancel = context.WithCancel(b.ctx)
	c.clearLocked()
	return c
}

// refusals remembers which keys were refused lately, roughly: a key is only
// worth reading when it was refused before.
type refusals struct {
	seed maphash.Seed
	tags []uint16
}

// again reports whether a key was refused before; c.mu is held.
func (r *refusals) again(key []byte) bool {
	if r.tags == nil {
		r.seed, r.tags = maphash.MakeSeed(), make([]uint16, 1<<16)
	}
	h := maphash.Bytes(r.seed, key)
	slot, tag := &r.tags[h&0xffff], uint16(h>>48)
	known := *slot == tag
	*slot = tag
	return known
}

// wake has the watcher look for what there is to do; c.mu is held.
func (c *denyCache) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// ask has the watcher ask for the TIME; c.mu is held.
func (c *denyCache) ask() {
	if !c.asked {
		c.asked = true
		c.wake()
	}
}

// watch reads and watches keys until the cache is closed or the upstream can't
// be watched. A connection is made when there is something to read.
func (c *denyCache) watch() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.woken:
		}
		err := c.serve()
		c.disconnect()
		switch {
		case c.ctx.Err() != nil:
			return
		case errors.Is(err, errUntracked) || isReplyError(err):
			c.backend.log.Warn("refusals are not kept", "addr", c.backend.Addr(), "user", c.id.User, "err", err)
			c.stop()
			return
		}
		c.backend.log.Warn("refusals are not kept for now", "addr", c.backend.Addr(), "err", err)
		select {
		case <-c.ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

// stop keeps nothing any more.
func (c *denyCache) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
	c.clearLocked()
}

// close ends the watching.
func (c *denyCache) close() {
	c.cancel()
	c.disconnect()
}

// disconnect forgets all that came by the connection, and closes it.
func (c *denyCache) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearLocked()
	c.clock, c.heardAt, c.round, c.asked = upstreamClock{}, 0, round{}, false
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// serve watches on one connection.
func (c *denyCache) serve() error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	asked := make(chan error, 1)
	ended := make(chan struct{})
	go func() { asked <- c.askRounds(conn, ended) }()
	err = c.readReplies(conn)
	close(ended)
	conn.Close()
	<-asked
	return err
}

func (c *denyCache) connect() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.backend.config.DialTimeout)
	defer cancel()
	conn, welcome, err := c.backend.connect(ctx, c.id)
	if err != nil {
		return nil, err
	}
	if welcome.needsAuth {
		conn.Close()
		return nil, fmt.Errorf("%w: it asks for a password", errUntracked)
	}
	reply, err := newCallConn(conn).call(cluster.AppendCommand(nil, "CLIENT", "TRACKING", "ON"), time.Now().Add(c.backend.config.DialTimeout))
	if err == nil && reply[0] == '-' {
		err = fmt.Errorf("%w: %s", errUntracked, bytes.TrimSpace(reply[1:]))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		conn.Close()
		return nil, c.ctx.Err()
	}
	c.conn = conn
	c.wake() // for what has been wanted meanwhile
	return conn, nil
}

// askRounds sends rounds until the connection has ended.
func (c *denyCache) askRounds(conn net.Conn, ended <-chan struct{}) error {
	for {
		select {
		case <-ended:
			return nil
		case <-c.woken:
		}
		if b := c.nextRound(conn); len(b) > 0 {
			if _, err := conn.Write(b); err != nil {
				conn.Close()
				return err
			}
		}
	}
}

// nextRound begins a round, if none is under way and there is something to ask.
func (c *denyCache) nextRound(conn net.Conn) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != conn || c.round.open || !c.asked && len(c.unread) == 0 {
		return nil
	}
	n := min(len(c.unread), maxRound)
	c.round = round{open: true, keys: c.unread[:n:n], writes: c.all.writes.Load()}
	c.unread = c.unread[n:]
	c.asked = false
	b := cluster.AppendCommand(nil, "TIME")
	for _, d := range c.round.keys {
		b = cluster.AppendCommand(b, "GET", d.key)
		b = cluster.AppendCommand(b, "PTTL", d.key)
	}
	conn.SetReadDeadline(time.Now().Add(c.backend.config.Timeout))
	c.round.sentAt = c.now()
	return b
}

// readReplies takes replies and messages until the connection ends.
func (c *denyCache) readReplies(conn net.Conn) error {
	for replies := newCallConn(conn); ; {
		reply, err := replies.reply()
		if err != nil {
			return err
		}
		if reply[0] == '>' {
			c.changed(reply)
		} else if err := c.answered(conn, reply); err != nil {
			return err
		}
	}
}

// changed takes a message about keys that have changed, or all.
func (c *denyCache) changed(message []byte) {
	keys, ok := invalidated(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		c.clearLocked()
		return
	}
	for _, key := range keys {
		if d := c.denials[string(key)]; d != nil {
			c.remove(d)
		}
	}
}

// answered takes the next reply of the round.
func (c *denyCache) answered(conn net.Conn, reply []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.round
	if c.conn != conn {
		return errClosed
	}
	if !r.open {
		return fmt.Errorf("%w: a reply to nothing: %.40q", errReply, reply)
	}
	r.answered++
	if r.answered == 1 {
		if err := c.heard(reply); err != nil {
			return err
		}
	} else {
		d := r.keys[(r.answered-2)/2]
		if reply[0] == '-' {
			c.remove(d)
			if bytes.HasPrefix(reply, noPermission) {
				return fmt.Errorf("%w: %s", errUntracked, bytes.TrimSpace(reply[1:]))
			}
		} else if r.answered%2 == 0 {
			c.readValue(d, reply)
		} else {
			c.readExpiry(d, reply)
		}
	}
	if r.answered == 1+2*len(r.keys) {
		c.round = round{}
		conn.SetReadDeadline(time.Time{})
		if c.asked || len(c.unread) > 0 {
			c.wake()
		}
	}
	return nil
}

// heard takes the reply to TIME.
func (c *denyCache) heard(reply []byte) error {
	words, ok := bulks(reply)
	if !ok || len(words) != 2 {
		return fmt.Errorf("%w: TIME: %.40q", errUntracked, reply)
	}
	seconds, err1 := strconv.ParseInt(string(words[0]), 10, 64)
	micros, err2 := strconv.ParseInt(string(words[1]), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%w: TIME: %w", errUntracked, err)
	}
	c.round.micros = seconds*1e6 + micros
	c.clock.sample(c.round.micros, c.round.sentAt, c.now())
	c.heardAt, c.heardWrites = c.round.sentAt, c.round.writes
	return nil
}

// readValue takes the reply to GET.
func (c *denyCache) readValue(d *denial, reply []byte) {
	end := bytes.IndexByte(reply, '\n') + 1
	switch {
	case reply[0] == '_': // no such key
	case reply[0] == '$' && end+2 < len(reply) && len(reply) <= maxDenialValue:
		d.value = string(reply[end : len(reply)-2])
	default:
		c.remove(d)
	}
}

// readExpiry takes the reply to PTTL: -1 says that the key does not expire, -2
// that there is none.
func (c *denyCache) readExpiry(d *denial, reply []byte) {
	millis, err := strconv.ParseInt(string(bytes.TrimSpace(reply[1:])), 10, 64)
	if reply[0] != ':' || err != nil || (millis == -2) != (d.value == "") {
		c.remove(d)
		return
	}
	d.expires, d.readAt, d.known = expiry(c.round.micros, millis), c.round.sentAt, true
}

// invalidated returns the keys of a message of tracking. It reports false if
// that is about all keys, or can't be understood.
func invalidated(message []byte) (keys [][]byte, ok bool) {
	const begin = ">2\r\n$10\r\ninvalidate\r\n"
	rest, ok := bytes.CutPrefix(message, []byte(begin))
	if !ok {
		return nil, false
	}
	return bulks(rest)
}

// bulks returns the strings of an array of bulk strings.
func bulks(b []byte) (words [][]byte, ok bool) {
	line, b, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) < 2 || line[0] != '*' {
		return nil, false
	}
	count, err := strconv.Atoi(string(line[1:]))
	for range count {
		end := bytes.IndexByte(b, '\n') + 1
		if err != nil || end == 0 || b[0] != '$' {
			return nil, false
		}
		length, err := headerLength(b[:end])
		if err != nil || length < 0 || end+length+2 > len(b) {
			return nil, false
		}
		words = append(words, b[end:end+length])
		b = b[end+length+2:]
	}
	return words, err == nil
}
