package backend

import "errors"

var errBroken = errors.New("connection lost within a reply")

// branch is a router's way to one node. It is the sink of what it has sent
// there.
type branch struct {
	router  *router
	node    *node
	stream  *Stream // or, if pinned, private
	place   Place   // on stream
	pinned  bool
	private *Private
	batch   []*part  // to be sent next
	after   [][]byte // and behind that
	owed    owedParts
}

// Reply implements Sink.
func (b *branch) Reply(piece []byte, last bool) (flush bool) {
	r := b.router
	r.mu.Lock()
	defer r.mu.Unlock()
	p := b.owed.first()
	if last {
		b.owed.pop()
	}
	if r.closed {
		return false
	}
	if p != nil {
		flush = r.take(p, piece, last)
	}
	if last && b == r.pin {
		r.unpin()
	}
	return flush
}

// Flush implements Sink.
func (b *branch) Flush() { b.router.sink.Flush() }

// Broken implements Sink. A reply that nobody has seen a part of can still be
// told to be lost.
func (b *branch) Broken() (flush bool) {
	r := b.router
	r.mu.Lock()
	defer r.mu.Unlock()
	p := b.owed.first()
	b.owed.pop()
	if r.closed || p == nil {
		return false
	}
	if p.op.passed {
		r.closed = true
		return r.sink.Broken()
	}
	p.reply, p.begun = p.reply[:0], false
	return r.take(p, LostReply(errBroken), true)
}

// Raw implements Sink. It is not called for what is shared.
func (b *branch) Raw([]byte, bool) {}

// take takes the next piece of the reply to a part.
func (r *router) take(p *part, piece []byte, last bool) (flush bool) {
	if last && !p.begun && len(piece) > 0 && piece[0] == '-' {
		if isLost(piece) {
			r.cluster.lookSoon()
		} else if p.pinned && !p.opening {
			piece = r.firmError(p, piece)
		} else if r.refused(p, piece) {
			r.inFlight--
			flush = r.deliver()
			r.kick()
			return flush
		}
	}
	p.begun = true
	p.op.count(piece)
	if o := p.op; o.streams() && r.ops[0] == o {
		o.passed = true
		flush = r.sink.Reply(piece, last)
	} else {
		p.reply = append(p.reply, piece...)
	}
	if !last {
		return flush
	}
	r.inFlight--
	r.hasRun(p)
	p.op.left--
	flush = r.deliver() || flush
	r.kick()
	return flush
}

// answer gives a part a reply that does not come from a node. deliver is to
// follow.
func (r *router) answer(p *part, reply []byte) {
	p.reply = append(p.reply[:0], reply...)
	p.begun = true
	p.op.count(reply)
	p.op.left--
}

// count counts the outcome of a limiter command as soon as the reply shows it.
func (o *op) count(reply []byte) {
	if t := o.request.Tally; t != nil && outcomeOf(reply) != unknown {
		t.Count(o.request.Limiter, reply)
		o.request.Tally = nil
	}
}

// streams reports whether the pieces of the op's reply can be passed on as they
// come.
func (o *op) streams() bool {
	return o.merge == nil && !o.request.Discard
}

// deliver gives the client the replies whose turn has come.
func (r *router) deliver() (flush bool) {
	for r.next > 0 {
		o := r.ops[0]
		if o.left > 0 {
			return r.passOn(o) || flush
		}
		switch {
		case o.request.Discard:
			flush = r.sink.Reply(nil, true) || flush
		case o.merge != nil:
			flush = r.sink.Reply(o.merge(o), true) || flush
		case !o.passed:
			flush = r.sink.Reply(o.parts[0].reply, true) || flush
		}
		r.drop(o)
	}
	return flush
}

// passOn passes on what has come of the reply whose turn it is.
func (r *router) passOn(o *op) (flush bool) {
	p := &o.parts[0]
	if !o.streams() || len(p.reply) == 0 {
		return false
	}
	o.passed = true
	flush = r.sink.Reply(p.reply, false)
	p.reply = p.reply[:0]
	return flush
}

// drop takes the oldest op, which has been answered, off the queue.
func (r *router) drop(o *op) {
	r.ops[0] = nil
	r.ops = r.ops[1:]
	r.next--
	r.queued -= len(o.request.Bytes)
	r.room.Signal() // the session, if it waits
	reply := o.one[0].reply
	if len(r.spare) >= keptOps || cap(o.buf) > keptOp || cap(reply) > keptOp {
		return
	}
	*o = op{router: r, buf: o.buf[:0]}
	o.one[0].reply = reply[:0]
	r.spare = append(r.spare, o)
}

// owedParts are parts that await replies, in order.
type owedParts struct {
	parts []*part
	head  int
}

func (q *owedParts) push(p *part) {
	if q.head > 0 && len(q.parts) == cap(q.parts) {
		n := copy(q.parts, q.parts[q.head:])
		clear(q.parts[n:])
		q.parts, q.head = q.parts[:n], 0
	}
	q.parts = append(q.parts, p)
}

func (q *owedParts) empty() bool { return len(q.parts) == 0 }

func (q *owedParts) first() *part { return q.parts[q.head] }

func (q *owedParts) pop() {
	q.parts[q.head] = nil
	if q.head++; q.head == len(q.parts) {
		q.parts, q.head = q.parts[:0], 0
	}
}

// takeBack takes the last n off again.
func (q *owedParts) takeBack(n int) {
	clear(q.parts[len(q.parts)-n:])
	q.parts = q.parts[:len(q.parts)-n]
	if q.head == len(q.parts) {
		q.parts, q.head = q.parts[:0], 0
	}
}
