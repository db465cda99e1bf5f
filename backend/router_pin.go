package backend

import (
	"bytes"
	"context"

	"cellproxy/backend/cluster"
)

// A session's transactions, and commands that block, go to the node of their
// first key on a private connection: the pin. While it is in use nothing goes
// elsewhere. The first command on it is waited for, so that it can be sent again
// if the slot is another node's by now; the rest of a transaction can't.

var (
	replyOK     = []byte("+OK\r\n")
	replyQueued = []byte("+QUEUED\r\n")
	replyNone   = []byte("*0\r\n")

	requestMulti   = []byte("*1\r\n$5\r\nMULTI\r\n")
	requestUnwatch = []byte("*1\r\n$7\r\nUNWATCH\r\n")
	// requestUnknown has a transaction fail.
	requestUnknown = []byte("*1\r\n$1\r\n?\r\n")

	errNested    = []byte("-ERR MULTI calls can not be nested\r\n")
	errWatch     = []byte("-ERR WATCH inside MULTI is not allowed\r\n")
	errAborted   = []byte("-EXECABORT Transaction discarded because of previous errors.\r\n")
	errCrossSlot = []byte("-CROSSSLOT Keys in request don't hash to the same slot\r\n")
	errMoving    = []byte("-TRYAGAIN the transaction was not run: its slot is moving\r\n")
	errElsewhere = []byte("-ERR a command for all nodes can't be in a transaction on a cluster\r\n")
)

// transaction is what the client has begun.
type transaction struct {
	multi    bool     // in MULTI
	watching bool     // after WATCH
	begun    bool     // the pin is in MULTI
	spoiled  bool     // it is to fail, though it is not begun
	held     [][]byte // commands without a key from before it was begun
	slot     int      // of its first key
}

// useLane has what comes next go to the pin, or not. It reports false while that
// has to wait for replies.
func (r *router) useLane(pinned bool) bool {
	if r.inFlight > 0 && (r.exclusive || r.onPin != pinned) {
		return false
	}
	r.onPin, r.exclusive, r.blocked = pinned, false, false
	return true
}

// planPinned plans what has to do with the pin. ok says that the command is such
// a one, and done that it could be planned now.
func (r *router) planPinned(o *op, words [][]byte) (ok, done bool) {
	var name [longestPlan]byte
	n := upper(name[:], words[0])
	tx := &r.transaction
	if tx.multi {
		return true, r.planQueued(o, string(name[:n]), words)
	}
	switch {
	case o.request.Blocks:
		return true, r.planOpening(o, words, nil)
	case string(name[:n]) == "MULTI" && len(words) == 1:
		return true, r.planMulti(o)
	case string(name[:n]) == "WATCH" && len(words) > 1:
		return true, r.planWatch(o, words)
	case string(name[:n]) == "UNWATCH" && len(words) == 1 && tx.watching:
		if !r.planFirm(o, words) {
			return true, false
		}
		tx.watching = false
		return true, true
	}
	return false, false
}

// planOpening has a command be the first on a new pin. before goes ahead of it.
func (r *router) planOpening(o *op, words [][]byte, before [][]byte) bool {
	if r.inFlight > 0 {
		return false // perhaps on the pin before
	}
	r.useLane(true)
	p := r.planOne(o, r.slotOf(words))
	p.pinned, p.opening, p.before = true, true, before
	r.transaction.slot = p.slot
	r.exclusive, r.blocked = true, o.request.Blocks && !r.transaction.multi
	r.launch(o)
	return true
}

// planFirm has a command follow others on the pin.
func (r *router) planFirm(o *op, words [][]byte) bool {
	if !r.useLane(true) {
		return false
	}
	p := r.planOne(o, r.slotOf(words))
	p.pinned = true
	r.launch(o)
	return true
}

// slotOf returns the slot of a command's first key, or noSlot.
func (r *router) slotOf(words [][]byte) int {
	if key, ok := r.topology.commands.Key(words); ok {
		return cluster.Slot(key)
	}
	return noSlot
}

// answerNow gives an op a reply that does not come from a node.
func (r *router) answerNow(o *op, reply []byte) bool {
	p := r.planOne(o, noSlot)
	p.reply = append(p.reply, reply...)
	o.left = 0
	return true
}

func (r *router) planMulti(o *op) bool {
	tx := &r.transaction
	if tx.watching {
		if !r.planFirm(o, [][]byte{[]byte("MULTI")}) {
			return false
		}
		tx.multi, tx.begun = true, true
		return true
	}
	*tx = transaction{multi: true}
	return r.answerNow(o, replyOK)
}

func (r *router) planWatch(o *op, words [][]byte) bool {
	if r.transaction.watching {
		return r.planFirm(o, words)
	}
	if !r.planOpening(o, words, nil) {
		return false
	}
	r.transaction.watching = true
	return true
}

// planQueued plans a command of a transaction.
func (r *router) planQueued(o *op, name string, words [][]byte) bool {
	tx := &r.transaction
	switch {
	case (name == "EXEC" || name == "DISCARD") && len(words) == 1:
		return r.planEnd(o, name == "EXEC", words)
	case o.request.Instead != nil:
		return r.spoil(o, o.request.Instead)
	case plans.find(words) != nil && !splits[name]:
		return r.spoil(o, errElsewhere)
	case tx.begun:
		return r.planFirm(o, words)
	case name == "MULTI":
		return r.answerNow(o, errNested)
	case name == "WATCH":
		return r.answerNow(o, errWatch)
	case tx.spoiled:
		return r.answerNow(o, replyQueued)
	case r.slotOf(words) == noSlot:
		tx.held = append(tx.held, bytes.Clone(o.request.Bytes))
		return r.answerNow(o, replyQueued)
	}
	if !r.planOpening(o, words, append([][]byte{requestMulti}, tx.held...)) {
		return false
	}
	tx.begun, tx.held = true, nil
	return true
}

// planEnd plans EXEC or DISCARD.
func (r *router) planEnd(o *op, exec bool, words [][]byte) bool {
	tx := &r.transaction
	done := true
	switch {
	case tx.begun:
		done = r.planFirm(o, words)
		if done && tx.watching && r.pin != nil {
			// Should the node have refused the MULTI, it still watches.
			r.pin.after = append(r.pin.after, requestUnwatch)
		}
	case !exec:
		r.answerNow(o, replyOK)
	case tx.spoiled:
		r.answerNow(o, errAborted)
	case len(tx.held) == 0:
		r.answerNow(o, replyNone)
	default:
		done = r.planOpening(o, words, append([][]byte{requestMulti}, tx.held...))
	}
	if done {
		*tx = transaction{slot: tx.slot}
	}
	return done
}

// spoil answers a command of a transaction with an error that has the
// transaction fail.
func (r *router) spoil(o *op, line []byte) bool {
	if !r.transaction.begun {
		r.transaction.spoiled = true
		return r.answerNow(o, line)
	}
	if !r.planFirm(o, [][]byte{[]byte("?")}) {
		return false
	}
	o.request.Instead = line
	o.one[0].bytes = requestUnknown
	return true
}

// routePinned puts a part among those that go to the pin.
func (r *router) routePinned(p *part) {
	if p.opening {
		n := p.to
		if n == nil {
			n = r.target(p)
		}
		if n == nil {
			r.putOff(p, notServed)
			return
		}
		r.dropPin()
		r.pin = &branch{router: r, node: n, pinned: true}
	}
	if r.pin == nil {
		r.answer(p, UnavailableReply(errClosed))
		return
	}
	r.put(p, r.pin)
}

// dropPin ends the private connection.
func (r *router) dropPin() {
	if r.pin != nil && r.pin.private != nil {
		r.pin.private.Discard()
	}
	r.pin = nil
}

// unpin lets others use the private connection when nobody needs it here.
func (r *router) unpin() {
	b := r.pin
	if b == nil || r.transaction.multi || r.transaction.watching || !b.owed.empty() || len(b.batch) > 0 {
		return
	}
	r.pin = nil
	if b.private != nil {
		b.private.Release()
	}
}

// firmError is what the client is told instead of a refusal that only the first
// command on a pin can be sent again for.
func (r *router) firmError(p *part, line []byte) []byte {
	refusal, _ := cluster.ParseError(line, p.node.addr)
	switch {
	case refusal == cluster.NotRefused:
		return line
	case p.slot != noSlot && p.slot != r.transaction.slot && refusal != cluster.NotNow:
		return errCrossSlot
	}
	r.cluster.lookSoon()
	return errMoving
}

// failOpening ends a transaction that could not be begun.
func (r *router) failOpening() {
	r.dropPin()
	if tx := &r.transaction; tx.multi {
		*tx = transaction{multi: true, spoiled: true}
	} else {
		*tx = transaction{}
	}
}

// submit sends requests to the node.
func (b *branch) submit(requests []Request) error {
	if !b.pinned {
		return b.stream.Submit(b, requests, nil, &b.place)
	}
	r := b.router
	if b.private == nil {
		private, err := b.node.backend.Private(context.Background(), r.id, b)
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed {
			private.Discard()
			return errClosed
		}
		b.private = private
	}
	return b.private.Submit(requests)
}

// Lost implements Sink. What the client had set up on the private connection is
// gone.
func (b *branch) Lost(err error) {
	r := b.router
	r.mu.Lock()
	needed := r.pin == b && (r.transaction.multi || r.transaction.watching)
	if r.pin == b {
		r.pin = nil
	}
	sink, closed := r.sink, r.closed
	r.mu.Unlock()
	if needed && !closed {
		sink.Lost(err)
	}
}

// Blocked implements Lane.
func (r *router) Blocked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blocked && r.inFlight > 0
}

// Private implements Lane.
func (r *router) Private(ctx context.Context, sink Sink, command [][]byte) (*Private, error) {
	topology, err := r.cluster.load()
	if err != nil {
		return nil, err
	}
	n := topology.home(command)
	if n == nil {
		return nil, errNoMasters
	}
	return n.backend.Private(ctx, r.id, sink)
}

// Belongs implements Lane.
func (r *router) Belongs(command [][]byte, private *Private) bool {
	topology, err := r.cluster.load()
	if err != nil || private == nil {
		return false
	}
	n := topology.home(command)
	return n != nil && n.backend == private.backend
}

// home returns the node where a command belongs, or nil if nobody has its slot.
func (t *topology) home(command [][]byte) *node {
	if key, ok := t.commands.Key(command); ok {
		return t.owner(cluster.Slot(key))
	}
	return t.masters[0]
}
