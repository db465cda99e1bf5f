package backend

import (
	"time"

	"cellproxy/backend/cluster"
)

// maxGathered is how many commands are sorted by nodes before they are sent.
const maxGathered = 256

var asking = []byte("*1\r\n$6\r\nASKING\r\n")

// dispatch sends what may be sent now; r.mu is held, and let go meanwhile. One
// goroutine at a time does it, so that the order is kept.
func (r *router) dispatch() {
	if r.dispatching {
		return
	}
	r.dispatching = true
	for r.gather() {
		r.send()
	}
	r.dispatching = false
}

// wake dispatches when what the router waited for has happened.
func (r *router) wake() {
	r.mu.Lock()
	r.waiting = false
	r.dispatch()
	sink, closed := r.sink, r.closed
	r.mu.Unlock()
	if !closed && sink != nil {
		sink.Flush()
	}
}

// kick has what is left dispatched once nothing is under way any more.
func (r *router) kick() {
	if r.closed || r.dispatching || r.inFlight > 0 || len(r.again) == 0 && r.next == len(r.ops) {
		return
	}
	go r.wake()
}

// gather sorts what may be sent by nodes. It reports false if that is nothing.
func (r *router) gather() bool {
	if r.closed {
		return false
	}
	if len(r.again) > 0 {
		return r.gatherAgain()
	}
	if newest := r.cluster.now.Load(); newest != r.topology {
		if r.inFlight > 0 {
			return false // or a command could overtake one to the node before
		}
		r.topology = newest
	}
	first := r.next
	for r.next < len(r.ops) && r.next < first+maxGathered && r.plan(r.ops[r.next]) {
		r.next++
	}
	r.deliver()
	return r.next > first
}

// plan makes the parts of an op and sends them to where they belong. It reports
// false while they have to wait for replies.
func (r *router) plan(o *op) bool {
	r.words = cluster.AppendWords(r.words[:0], o.request.Bytes)
	if ok, done := r.planPinned(o, r.words); ok {
		return done
	}
	if !r.useLane(false) {
		return false
	}
	if plan := plans.find(r.words); plan == nil || !plan(r, o, r.words) {
		r.planOne(o, r.slotOf(r.words))
	}
	r.launch(o)
	return true
}

// planOne makes the op one part.
func (r *router) planOne(o *op, slot int) *part {
	o.parts = o.one[:]
	p := &o.one[0]
	*p = part{op: o, slot: slot, bytes: o.request.Bytes, reply: p.reply[:0]}
	return p
}

// launch sends the parts of an op for the first time.
func (r *router) launch(o *op) {
	o.left = len(o.parts)
	for i := range o.parts {
		p := &o.parts[i]
		r.seq++
		p.seq = r.seq
		r.route(p)
	}
}

// route puts a part among those that go to its node.
func (r *router) route(p *part) {
	if p.pinned {
		r.routePinned(p)
		return
	}
	n := p.to
	if n == nil {
		n = r.target(p)
	}
	if n == nil {
		r.putOff(p, notServed)
		return
	}
	if p.slot == allSlots && p.tries > 0 && !p.mayGoTo(n) {
		r.answer(p, unsettled)
		return
	}
	r.put(p, r.branch(n))
}

// put puts a part among those that go to a branch next.
func (r *router) put(p *part, b *branch) {
	if len(b.batch) == 0 {
		r.batches = append(r.batches, b)
	}
	p.node = b.node
	b.batch = append(b.batch, p)
	r.inFlight++
}

// mayGoTo reports whether a part that is for a certain node may go to another
// that has taken its place.
func (p *part) mayGoTo(n *node) bool {
	if p.fixed {
		return p.node == nil || p.node == n
	}
	for i := range p.op.parts {
		if other := &p.op.parts[i]; other != p && other.node == n {
			return false // it has done its part
		}
	}
	return true
}

// target returns the node where a part belongs, or nil if nobody has its slot.
func (r *router) target(p *part) *node {
	switch p.slot {
	case noSlot:
		return r.topology.masters[0]
	case allSlots:
		return r.topology.owner(p.home)
	}
	return r.topology.owner(p.slot)
}

// send sends what has been gathered; r.mu is held, and let go meanwhile.
func (r *router) send() {
	for i, b := range r.batches {
		r.batches[i] = nil
		r.requests = r.requests[:0]
		if b.owed.empty() {
			b.place = Place{}
		}
		for _, p := range b.batch {
			if p.asking {
				r.addSilent(b, asking)
			}
			for _, before := range p.before {
				r.addSilent(b, before)
			}
			b.owed.push(p)
			request := p.op.request
			request.Bytes, request.Discard = p.bytes, false // the router has to see what comes
			request.Tally = nil                             // and whether it is the outcome
			r.requests = append(r.requests, request)
		}
		for _, after := range b.after {
			r.addSilent(b, after)
		}
		b.after = nil
		r.mu.Unlock()
		err := b.submit(r.requests)
		r.mu.Lock()
		if err != nil {
			b.owed.takeBack(len(r.requests))
			r.inFlight -= len(b.batch)
			for _, p := range b.batch {
				r.unsent(p, err)
			}
		}
		clear(b.batch)
		clear(r.requests)
		b.batch = b.batch[:0]
	}
	r.batches = r.batches[:0]
	r.deliver()
}

// addSilent adds a request to what is sent next whose reply nobody gets.
func (r *router) addSilent(b *branch, request []byte) {
	b.owed.push(nil)
	r.requests = append(r.requests, Request{Bytes: request, Discard: true})
}

// gatherAgain gathers what was not run before. What goes to another node than
// one before it of the same slot has to wait for that.
func (r *router) gatherAgain() bool {
	if r.inFlight > 0 {
		return false
	}
	if pause := time.Until(r.resume); pause > 0 {
		if !r.waiting {
			r.waiting = true
			time.AfterFunc(pause, r.wake)
		}
		return false
	}
	r.topology = r.cluster.now.Load()
	again := r.inOrder()
	type way struct {
		node   *node
		asking bool
	}
	ways := make(map[int]way)
	for i, p := range again {
		if r.overtaken(p) {
			r.giveUp(p, overtaken)
			continue
		}
		to := way{p.to, p.asking}
		if first, taken := ways[p.slot]; taken && first != to || p.slot == allSlots && len(ways) > 0 {
			r.again = append(r.again, again[i:]...)
			break
		}
		if p.slot != noSlot {
			ways[p.slot] = to
		}
		r.route(p)
		p.to = nil
	}
	if len(r.again) == 0 {
		r.ran = r.ran[:0]
	}
	r.deliver()
	return true
}
