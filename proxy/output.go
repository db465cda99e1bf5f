package proxy

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"cellproxy/backend"
)

// What a session may have under way for its client.
const (
	// inFlightBytes is what the replies in flight may come to, by the size
	// of those before them.
	inFlightBytes = 16 << 20
	minInFlight   = 8    // commands, however large the replies
	maxInFlight   = 4096 // commands, however small the replies
	// unreadBytes is how much may wait for the client to read before its
	// next commands wait too.
	unreadBytes = 1 << 20
	// keptOutput is the largest buffer kept for the next replies.
	keptOutput = 64 << 10
)

// errOverflow ends a session whose client does not read its replies.
var errOverflow = errors.New("client does not read its replies")

// local is a reply of the proxy's own waiting for its turn.
type local struct {
	after uint64 // comes when so many replies have been answered
	reply []byte
}

// output is the way back to one client: it takes the replies of the upstream
// and the proxy's own, and writes them in the order of their commands. It
// implements backend.Sink.
type output struct {
	conn    net.Conn
	socket  syscall.RawConn // nil when conn has no descriptor of its own
	limit   int             // bytes that may wait for the client to read
	patient time.Duration   // how long one write may take
	writers sync.WaitGroup
	attempt writeAttempt

	mu        sync.Mutex
	changed   sync.Cond
	waiting   bool // somebody waits for changed
	buf       []byte
	spare     []byte
	unwritten int    // bytes that were in buf and are being written
	writes    uint32 // done
	locals    []local
	owed      int    // replies the upstream has yet to send
	answered  uint64 // replies it has sent
	size      int    // bytes of the reply at hand
	mean      int    // bytes of a reply, a moving average
	capture   bool   // replies go to captured
	captured  []byte
	probe     probe // among what a wire brings, or nil
	marked    bool  // the upstream's reader will flush
	writing   bool  // somebody writes what was in buf
	ending    bool  // close when all is written
	err       error

	// What comes without being asked for.
	listening  bool // the client waits for it
	subscribed bool // and it may be messages
	subscriber unreadLimit

	// The session's private connection. When transient it is given back as
	// soon as nothing is owed.
	private   *backend.Private
	transient bool
	wanted    bool // by others, who track keys for it
}

func (o *output) init(conn net.Conn, limit int, patient time.Duration) {
	o.conn, o.limit, o.patient = conn, limit, patient
	o.changed.L = &o.mu
	o.mean = inFlightBytes / 256
	if sc, ok := conn.(syscall.Conn); ok {
		if socket, err := sc.SyscallConn(); err == nil {
			o.socket = socket
			o.attempt.init()
		}
	}
}

// Reply implements backend.Sink.
func (o *output) Reply(part []byte, last bool) (flush bool) {
	o.mu.Lock()
	if o.capture {
		o.captured = append(o.captured, part...)
	} else {
		o.append(part)
	}
	var done *backend.Private
	if last {
		o.mean += (o.size - o.mean) / 8
		o.size = 0
		done = o.replied()
	}
	flush = !o.marked
	o.marked = true
	o.mu.Unlock()
	if done != nil {
		done.Release()
	}
	return flush
}

// append takes a piece of a reply. A client that leaves more unread than the
// limit is given up, but a single reply may be of any size.
func (o *output) append(part []byte) {
	if o.size == 0 && len(o.buf) > o.limit {
		o.fail(errOverflow)
	}
	o.size += len(part)
	if o.err == nil {
		o.buf = append(o.buf, part...)
	}
}

// replied counts one reply as answered and lets the proxy's own replies behind
// it follow. It returns the private connection if that is not needed any more.
func (o *output) replied() (done *backend.Private) {
	o.owed--
	o.answered++
	for len(o.locals) > 0 && o.locals[0].after == o.answered {
		o.append(o.locals[0].reply)
		o.size = 0
		o.locals = o.locals[1:]
	}
	if o.owed == 0 && o.transient {
		done, o.private = o.private, nil
	}
	o.wake()
	return done
}

// Broken implements backend.Sink: a part of the reply has been passed on, so
// there is no place for an error. The client's connection ends as the
// upstream's did.
func (o *output) Broken() (flush bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owed--
	o.answered++
	o.fail(errors.New("upstream connection lost within a reply"))
	flush = !o.marked
	o.marked = true
	return flush
}

// Raw implements backend.Sink. It waits while the client has too much unread,
// unless that is a subscriber: whoever publishes is not to wait for it.
func (o *output) Raw(b []byte, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.probe != nil {
		if b = o.probe.take(b, first); o.probe.isDone() {
			o.wake()
		}
	}
	if o.subscribed && o.subscriber.bounded() {
		if o.subscriber.exceeded(len(o.buf)+o.unwritten+len(b), time.Now()) {
			o.fail(errOverflow)
		}
	} else {
		o.awaitReading()
	}
	if o.err == nil {
		o.buf = append(o.buf, b...)
	}
}

// awaitReading waits until the client has not too much unread; o.mu is held and
// let go meanwhile.
func (o *output) awaitReading() {
	for len(o.buf) > unreadBytes && o.err == nil {
		o.mu.Unlock()
		o.Flush()
		o.mu.Lock()
		if len(o.buf) > unreadBytes && o.err == nil {
			o.wait()
		}
	}
}

// Lost implements backend.Sink: what the client had set up on its private
// connection is gone, and so must be its own.
func (o *output) Lost(error) {
	o.mu.Lock()
	o.ending = true
	o.wake()
	o.mu.Unlock()
	o.Flush()
}

// local gives the client a reply of the proxy's own, behind those it is owed.
func (o *output) local(reply []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owed > 0 {
		o.locals = append(o.locals, local{o.answered + uint64(o.owed), reply})
		return
	}
	o.append(reply)
	o.size = 0
}

// expect announces n replies, once there is room for them or, unless wait is
// set, at once. It returns the private connection, if the session has one,
// whether replies were owed before, and an error when the client is gone.
func (o *output) expect(n int, transient, wait bool) (private *backend.Private, owed bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for wait && o.err == nil && o.owed > 0 && (o.owed+n > o.window() || len(o.buf) > unreadBytes) {
		o.wait()
	}
	for wait && o.err == nil && len(o.buf) > unreadBytes {
		o.wait()
	}
	if o.err != nil {
		return nil, false, o.err
	}
	owed = o.owed > 0
	o.owed += n
	o.transient = transient
	return o.private, owed, nil
}

// hasRoom reports whether there is room for n replies, in a few or in one go,
// and whether any are owed.
func (o *output) hasRoom(n int) (room, owed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil || len(o.buf) <= unreadBytes && o.owed+n <= o.window(), o.owed > 0
}

// overflowed reports whether the client did not read its replies.
func (o *output) overflowed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err == errOverflow
}

// privateConn returns the session's private connection, or nil.
func (o *output) privateConn() *backend.Private {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.private
}

// unexpect takes back the announcement of n replies that will not come and
// puts reply in the place of each.
func (o *output) unexpect(n int, reply func(i int) []byte) {
	o.mu.Lock()
	o.owed -= n
	var done *backend.Private
	if o.owed == 0 && o.transient {
		done, o.private = o.private, nil
	}
	o.mu.Unlock()
	if done != nil {
		done.Discard()
	}
	for i := range n {
		if r := reply(i); r != nil {
			o.local(r)
		}
	}
}

// window is how many replies may be in flight.
func (o *output) window() int {
	return min(max(inFlightBytes/max(o.mean, 1), minInFlight), maxInFlight)
}

// settle waits until nothing is owed any more.
func (o *output) settle() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.owed > 0 {
		o.wait()
	}
	return o.err
}

// finish waits, for at most d, until the client has all that is there for it
// and, if all is set, all that it is owed.
func (o *output) finish(d time.Duration, all bool) {
	o.Flush()
	o.waitFor(d, func() bool {
		return (!all || o.owed == 0) && len(o.buf) == 0 && !o.writing
	})
}

// waitFor waits until done reports true or the session has failed, for at most
// d.
func (o *output) waitFor(d time.Duration, done func() bool) {
	expired := false
	timer := time.AfterFunc(d, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		expired = true
		o.wake()
	})
	defer timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && !expired && !done() {
		o.wait()
	}
}

// close drops what is left and waits for whoever still writes. It leaves the
// connection itself open if it can.
func (o *output) close() {
	o.mu.Lock()
	if o.err == nil && !o.writing {
		o.err = net.ErrClosed
		o.buf, o.locals = nil, nil
		o.wake()
	} else {
		o.fail(net.ErrClosed)
	}
	private := o.private
	o.private = nil
	o.mu.Unlock()
	if private != nil {
		private.Discard()
	}
	o.writers.Wait()
}

// cut ends the session at once.
func (o *output) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(errEnded)
}

// endAfter closes the session once the client has its last reply.
func (o *output) endAfter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = true
}

// fail ends the session for the reason err; o.mu is held.
func (o *output) fail(err error) {
	if o.err == nil {
		o.err = err
		o.buf, o.locals = nil, nil
		o.conn.Close()
		o.wake()
	}
}

func (o *output) wait() {
	o.waiting = true
	o.changed.Wait()
}

func (o *output) wake() {
	if o.waiting {
		o.waiting = false
		o.changed.Broadcast()
	}
}
