package backend

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"cellproxy/backend/poll"
	"cellproxy/commands"
)

// readBuffer is how much of the upstream's replies one read takes.
const readBuffer = 64 << 10

// maxQueued is how many bytes may wait to be written to one upstream
// connection before those who submit more must wait.
const maxQueued = 16 << 20

var errClosed = errors.New("closed")

// Request is one command on its way upstream.
type Request struct {
	// Bytes is the command as a RESP array. A submitted request may not be
	// changed when it has 64 KiB or more.
	Bytes []byte
	// Run are the parts of Bytes if that runs a script and may be put together with
	// others that do.
	Run commands.Run
	// Limiter is the command as the client sent it if it is a limiter command
	// that Bytes runs by EVALSHA. Should the upstream have lost the script, it
	// is run as EVAL (NOSCRIPT says that it was not run); should the upstream
	// not be able to answer, the policy does.
	Limiter []byte
	// Script says that the command runs a client's script. While one takes long
	// the upstream answers others that it is busy, but on other connections only.
	Script bool
	// Tally, if set, counts the outcome of a limiter command.
	Tally *Tally
	// Blocks says that the command may wait for something, so that silence
	// means nothing.
	Blocks bool
	// Effect is what a command that is no limiter's may do to keys. It matters
	// only where refusals are kept.
	Effect Effect
	// Discard drops the reply; the sink is told of its end all the same.
	Discard bool
	// Instead, if set, takes the place of the upstream's reply.
	Instead []byte
}

// Sink receives replies. Its methods are called by one goroutine at a time
// for each connection and must not wait for the network.
type Sink interface {
	// Reply takes the next bytes of the oldest reply it is owed; last marks
	// the reply's end. It reports whether it wants to be flushed and had not
	// said so before.
	Reply(part []byte, last bool) (flush bool)
	// Flush is called when no more replies are at hand.
	Flush()
	// Raw takes bytes of a private connection that passes everything on; first
	// says that they are the beginning of a reply. It may wait: then the
	// upstream is not read either.
	Raw(b []byte, first bool)
	// Broken says that the rest of the reply it has taken a part of will
	// never come. It reports the same as Reply.
	Broken() (flush bool)
	// Lost says that the private connection of the sink is gone.
	Lost(err error)
}

// owed is a reply the upstream has yet to send.
type owed struct {
	sink    Sink
	discard bool
	script  bool
	blocks  bool
	effect  Effect
	instead []byte
	batched bool   // the upstream answers with others in one reply, perhaps
	limiter []byte // as in Request
	tally   *Tally // nil when it has counted the reply
	since   time.Duration
}

// link is one upstream connection that many goroutines submit commands to.
// Commands leave in the order they were submitted, gathered into few writes,
// and every reply goes to the sink of its command. A link that fails stays
// failed: all it owes is answered with an error and nothing is sent again.
type link struct {
	conn     net.Conn
	welcome  welcome
	shared   bool // many sessions submit
	lost     func(*link, error)
	repairs  *repairer
	instead  func(limiter []byte) []byte // answers in the upstream's place, or returns nil
	suspect  func()                      // that the server is no master any more; or nil
	denials  *denials                    // nil: no refusals are kept
	cache    *denyCache                  // of a shared link, if they are
	db       int
	counters *counters

	mu       sync.Mutex
	writable sync.Cond // there is something to write, or the link is closed
	room     sync.Cond // the send queue has room again, or the link is closed
	send     sendQueue
	writing  bool          // somebody writes what was in send
	unsent   []byte        // of what was in send: goes first
	arriving []owed        // submitted since the reader last looked
	raw      Sink          // set: everything that is read goes there
	err      error         // why the link is closed
	gone     chan struct{} // closed with err set
	answered chan struct{} // closed when all that was owed then has been answered

	inFlight atomic.Int64  // replies owed
	waiting  atomic.Int64  // of these, to commands that block
	scripts  atomic.Int64  // of these, to scripts of clients
	progress atomic.Uint64 // reads done, for the watchdog
	sampling atomic.Bool   // a reply owed is timed

	lent       *lent  // to a loop, or nil
	writeLater func() // writeNow, for the loop

	// Used by the reader alone.
	buf      []byte
	have     int // in buf, not delivered
	frame    framer
	current  []owed
	next     int    // in current
	batch    int    // of how many replies the one at hand consists, if it is a batch's
	left     int    // of these, to come
	loading  bool   // the reply at hand is that to the SCRIPT LOAD before a batch
	push     bool   // the reply at hand is out of band
	passed   framer // of what is passed on
	unframed bool   // that is not RESP
	dirty    []Sink
	tallying tallying

	goroutines sync.WaitGroup
}

// start begins to use a connection that has finished its handshake. lost is
// called once when it has failed or was closed, after every reply owed has been
// answered.
func (l *link) start() {
	l.writable.L, l.room.L = &l.mu, &l.mu
	l.gone, l.answered = make(chan struct{}), make(chan struct{})
	l.buf = make([]byte, readBuffer)
	if l.shared {
		l.goroutines.Go(l.writeLoop)
	}
	l.goroutines.Go(l.readLoop)
}

// submit queues requests in order. When the link is closed nothing was queued
// and the error says why. It waits while the queue is full, but for loop, which
// must not and, if not nil, writes when it is done with what is ready.
func (l *link) submit(sink Sink, requests []Request, loop *poll.Loop) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.send.size > maxQueued && l.err == nil && loop == nil {
		l.room.Wait()
	}
	if l.err != nil {
		return l.err
	}
	idle := l.send.size == 0
	for i := range requests {
		r := &requests[i]
		batched := r.Run.Script != nil && l.welcome.batches && len(r.Bytes) < largeRequest
		if l.raw == nil {
			l.owe(sink, r, batched)
		}
		if batched {
			l.send.addRun(r.Run)
		} else {
			l.send.add(r.Bytes)
		}
	}
	if l.raw == nil {
		l.sample()
	}
	switch {
	case !l.shared:
		l.writeQueued()
	case idle && loop != nil:
		loop.Later(l.writeLater)
	case idle:
		l.writable.Signal()
	}
	return nil
}

// ready reports whether submit would neither wait nor fail.
func (l *link) ready() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.send.size <= maxQueued && l.err == nil
}

// writeQueued writes what was just submitted to a link of one session: nobody
// else's commands are worth waiting for, and the next ones of the session can
// wait for these. l.mu is held and let go meanwhile.
func (l *link) writeQueued() {
	small, large := l.take()
	l.mu.Unlock()
	err := l.write(small, large)
	l.mu.Lock()
	if err != nil {
		l.failLocked(err)
	}
}

// take empties the queue of what is to be written at once.
func (l *link) take() (small []byte, large net.Buffers) {
	if n := l.send.commands; n > 0 {
		l.counters.batches.Observe(uint64(n))
	}
	return l.send.take()
}

// write writes what was taken from the queue.
func (l *link) write(small []byte, large net.Buffers) error {
	for _, b := range large {
		if err := l.writeLarge(b); err != nil {
			return err
		}
	}
	if len(small) == 0 {
		return nil
	}
	_, err := l.conn.Write(small)
	return err
}

// writeLarge writes b piece by piece: that the upstream takes them is a sign of
// life.
func (l *link) writeLarge(b []byte) error {
	for len(b) > 0 {
		n, err := l.conn.Write(b[:min(len(b), largePiece)])
		if err != nil {
			return err
		}
		l.progress.Add(1)
		b = b[n:]
	}
	return nil
}

// owe notes the reply to r, reusing the buffers of replies long delivered.
func (l *link) owe(sink Sink, r *Request, batched bool) {
	n := len(l.arriving)
	if n < cap(l.arriving) {
		l.arriving = l.arriving[:n+1]
	} else {
		l.arriving = append(l.arriving, owed{})
	}
	o := &l.arriving[n]
	o.sink, o.discard, o.instead = sink, r.Discard, r.Instead
	o.limiter = append(o.limiter[:0], r.Limiter...)
	o.script, o.blocks, o.batched, o.effect, o.tally = r.Script, r.Blocks, batched, r.Effect, r.Tally
	if r.Script {
		l.scripts.Add(1)
	}
	if r.Blocks {
		l.waiting.Add(1)
	}
	l.inFlight.Add(1)
}

// passThrough makes all that is read from now on go to sink as it comes.
// Nothing may be owed.
func (l *link) passThrough(sink Sink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raw = sink
}

// close gives the link up and waits until its goroutines are done. It must not
// be called from a sink.
func (l *link) close() {
	l.fail(errClosed)
	l.goroutines.Wait()
}

// fail gives the link up for the reason err; the first reason stays.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

func (l *link) failLocked(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	close(l.gone)
	if l.lent != nil {
		l.lent.loop.Remove(l.lent.fd, l)
	}
	l.conn.Close()
	l.writable.Signal()
	l.room.Broadcast()
}

// failed reports whether the link has been given up.
func (l *link) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

func (l *link) writeLoop() {
	for wrote := false; ; wrote = true {
		small, large, ok := l.takeQueued(wrote)
		if !ok {
			return
		}
		if l.lent != nil {
			l.lent.loop.Yield()
		}
		if err := l.write(small, large); err != nil {
			l.fail(err)
			return
		}
	}
}

// takeQueued waits for something to write. It lets the sessions that are ready
// to run go first, so that what they have to say leaves in the same write.
//
// wrote says that what was taken before has been written. Otherwise it may be
// the loop that is writing.
func (l *link) takeQueued(wrote bool) (small []byte, large net.Buffers, ok bool) {
	l.mu.Lock()
	if wrote {
		l.writing = false
	}
	for (l.writing || len(l.unsent) == 0 && l.send.size == 0) && l.err == nil {
		l.writable.Wait()
	}
	l.writing = true
	if small, l.unsent = l.unsent, nil; len(small) > 0 {
		defer l.mu.Unlock()
		return small, nil, l.err == nil
	}
	l.mu.Unlock()
	runtime.Gosched()

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, nil, false
	}
	if l.send.size > maxQueued {
		l.room.Broadcast()
	}
	small, large = l.take()
	return small, large, true
}

func (l *link) readLoop() {
	err := l.readAll()
	l.fail(err)
	l.mu.Lock()
	err = l.err
	l.mu.Unlock()
	l.repairs.close()
	l.answerOwed(err)
	close(l.answered)
	l.lost(l, err)
}

// readAll delivers replies until the connection ends.
func (l *link) readAll() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	for err == nil {
		if l.lend() {
			err = l.deliverBuffered(0)
			continue
		}
		var n int
		if n, err = l.conn.Read(l.buf[l.have:]); n > 0 {
			err = l.deliverBuffered(n)
		}
	}
	return err
}

func panicError(p any) error {
	return fmt.Errorf("panic while delivering replies: %v", p)
}

// deliverBuffered delivers what is in the buffer, n bytes of which are new, as
// far as it is complete. The buffer grows only for a line that does not fit it.
func (l *link) deliverBuffered(n int) error {
	l.progress.Add(1)
	l.have += n
	used, err := l.deliver(l.buf[:l.have])
	l.flush()
	l.have = copy(l.buf, l.buf[used:l.have])
	if l.have == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	return err
}

// deliver hands the replies in b to their sinks and returns how many bytes it
// is done with.
func (l *link) deliver(b []byte) (used int, err error) {
	for used < len(b) {
		rest := b[used:]
		if !l.frame.inside {
			if sink := l.passing(); sink != nil {
				return used + l.pass(sink, rest), nil
			}
			// On a shared connection nobody asked for what is pushed.
			if l.push = rest[0] == '>'; !l.push {
				n, enough, err := l.enterBatch(rest)
				if err != nil || !enough {
					return used, err
				}
				if n > 0 {
					used += n
					continue
				}
			}
		}
		n, whole, err := l.frame.next(rest)
		if err != nil {
			return used, err
		}
		if n == 0 {
			return used, nil
		}
		if !l.push {
			if err := l.deliverPart(rest[:n], whole); err != nil {
				return used, err
			}
			if whole && l.left > 0 {
				l.left--
			}
		}
		used += n
	}
	return used, nil
}

// pass gives everything in b to sink, as far as it consists of whole lines and
// pieces of bulks, and returns how much that is. What is not RESP, such as the
// stream of a replica, is passed on as it comes.
func (l *link) pass(sink Sink, b []byte) (used int) {
	if l.denials != nil {
		l.denials.wrote(Writes)
	}
	for used < len(b) && !l.unframed {
		first := !l.passed.inside
		n, _, err := l.passed.next(b[used:])
		if err != nil {
			l.unframed = true
			break
		}
		if n == 0 {
			break
		}
		sink.Raw(b[used:used+n], first)
		used += n
	}
	if l.unframed {
		sink.Raw(b[used:], false)
		used = len(b)
	}
	sink.Flush()
	return used
}

// passing returns the sink that takes everything, if there is one.
func (l *link) passing() Sink {
	if l.next < len(l.current) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.raw
}

// oldest returns the reply that is owed next, or nil.
func (l *link) oldest() *owed {
	if l.next == len(l.current) {
		l.mu.Lock()
		l.current, l.arriving = l.arriving, l.current[:0]
		l.mu.Unlock()
		l.next = 0
		if len(l.current) == 0 {
			return nil
		}
	}
	return &l.current[l.next]
}

// deliverPart hands on the next bytes of the reply that is owed next.
func (l *link) deliverPart(part []byte, last bool) error {
	o := l.oldest()
	if o == nil {
		return fmt.Errorf("%w: a reply to nothing: %.40q", errReply, part)
	}
	if l.suspect != nil && bytes.HasPrefix(part, readOnly) {
		l.suspect()
	}
	switch {
	case o.discard:
		l.tallying.count(o, part)
		part = nil
	case o.instead != nil:
		part = nil
		if last {
			part = o.instead
		}
	case len(o.limiter) > 0 && part[0] == '-':
		notRun := bytes.HasPrefix(part, noScript) || l.batch > 1 && bytes.HasPrefix(part, noPermission)
		if notRun && l.isLent() {
			return errWouldWait
		}
		part = l.rescue(o.limiter, part, notRun)
	}
	l.tallying.count(o, part)
	if !last {
		if len(part) > 0 {
			l.give(o.sink, part, false)
		}
		return nil
	}
	if l.denials != nil {
		l.tellDenials(o, part)
	}
	sink := o.sink
	l.settled(o)
	l.give(sink, part, true)
	return nil
}

// settled counts a reply as given. What it leaves behind is used again.
func (l *link) settled(o *owed) {
	o.sink, o.instead = nil, nil
	if cap(o.limiter) > keptLimiter {
		o.limiter = nil
	}
	if o.script {
		l.scripts.Add(-1)
	}
	if o.blocks {
		l.waiting.Add(-1)
	}
	if o.since != 0 {
		l.sampled(o)
	}
	l.next++
	l.inFlight.Add(-1)
}

// rescue returns the reply to a limiter command that was answered with an
// error.
func (l *link) rescue(limiter, reply []byte, notRun bool) []byte {
	var err error
	if notRun {
		l.counters.repairs.Add(1)
		reply, err = l.repairs.run(limiter, l.batch > 1)
	}
	if (err != nil || isDisabled(reply)) && l.instead != nil {
		if instead := l.instead(limiter); instead != nil {
			return instead
		}
	}
	return reply
}

func (l *link) give(sink Sink, part []byte, last bool) {
	if sink.Reply(part, last) {
		l.dirty = append(l.dirty, sink)
	}
}

// flush lets the sinks that took replies send them on.
func (l *link) flush() {
	l.tallying.flush()
	for i, sink := range l.dirty {
		l.dirty[i] = nil
		sink.Flush()
	}
	l.dirty = l.dirty[:0]
}

// answerOwed answers everything that is owed with the error that ended the
// link. Whether those commands were run can't be known.
func (l *link) answerOwed(err error) {
	line := LostReply(err)
	if l.denials != nil {
		l.lostDenials()
	}
	if l.frame.inside && !l.push && l.oldest() != nil {
		// A part of this reply may be on its way already: the sink can't
		// be given an answer, only be told that its place has gone.
		o := l.oldest()
		sink := o.sink
		l.tallying.count(o, line)
		l.settled(o)
		if sink.Broken() {
			l.dirty = append(l.dirty, sink)
		}
	}
	for o := l.oldest(); o != nil; o = l.oldest() {
		sink, reply := o.sink, l.lostReply(o, line)
		l.tallying.count(o, reply)
		l.tallying.count(o, line)
		l.settled(o)
		l.give(sink, reply, true)
	}
	l.flush()
}

// lostReply returns what takes the place of a reply that will not come.
func (l *link) lostReply(o *owed, line []byte) []byte {
	switch {
	case o.discard:
		return nil
	case len(o.limiter) > 0 && l.instead != nil:
		if instead := l.instead(o.limiter); instead != nil {
			return instead
		}
	}
	return line
}
