package backend

import (
	"sync"
	"time"

	"cellproxy/backend/poll"
	"cellproxy/commands"
)

// router is one session's way into a cluster. Every command goes to the node of
// its slot, down the stream that the session shares with others there, and the
// replies come back in the order of the commands.
//
// A command that a node has not run, because the slot moves or is another's, is
// sent again. So that no command overtakes it, the session sends nothing until
// all that is under way has been answered; then what was not run goes first, in
// its order. Should a later command of the same slot have been run by then, the
// earlier one gets an error instead.
type router struct {
	cluster *clustered
	id      Identity

	mu          sync.Mutex
	room        sync.Cond // less is queued, or the router is closed
	sink        Sink      // does not change
	topology    *topology // that what is under way was sent by
	branches    map[*node]*branch
	ops         []*op // in the client's order, from the oldest that is not answered
	next        int   // the first of ops that has not been sent
	queued      int   // bytes of ops
	seq         uint64
	inFlight    int // parts that were sent and not answered
	dispatching bool
	batches     []*branch // that have something to send
	closed      bool
	spare       []*op
	words       [][]byte

	// Of the pin.
	pin         *branch // or nil
	onPin       bool    // what is under way is on the pin
	exclusive   bool    // what comes next waits for what is under way
	blocked     bool    // that waits for something
	transaction transaction

	requests []Request // of the batch at hand

	// Of sending again.
	again   []*part // were not run, in order
	ran     []mark  // parts that were, meanwhile
	pause   time.Duration
	resume  time.Time // not before
	waiting bool      // for that
}

// mark remembers a part that was run.
type mark struct {
	seq  uint64
	slot int
}

// Slots of parts that have no single one.
const (
	noSlot   = -1 // of no keys
	allSlots = -2 // of any keys
)

// keptOps is how many answered ops, and keptOp how large ones, are kept for the
// next commands.
const (
	keptOps = 128
	keptOp  = 4 << 10
)

// op is a command of the client, which gets one reply.
type op struct {
	router  *router
	request Request
	buf     []byte           // what request refers to
	order   []int            // for merge: which part each key has gone to
	scan    scanned          // for merge
	merge   func(*op) []byte // makes the reply; nil: that of the one part
	parts   []part
	one     [1]part // backing of parts
	left    int     // parts without a reply
	passed  bool    // a part of the reply has been passed on
}

// part is what is sent of an op to one node.
type part struct {
	op      *op
	seq     uint64
	bytes   []byte
	slot    int   // also noSlot, allSlots
	home    int   // of allSlots: a slot of the node that it is for
	fixed   bool  // for the node alone that it was meant for at first
	node    *node // that it was sent to
	to      *node // that it is to be sent to, instead of where its slot is
	asking  bool
	pinned  bool      // it goes to the pin
	opening bool      // as the first
	before  [][]byte  // is sent before it
	since   time.Time // when it was first not run
	tries   int
	begun   bool   // some of its reply has come
	reply   []byte // what can't be passed on yet
}

func newRouter(c *clustered, id Identity) *router {
	r := &router{cluster: c, id: id, branches: make(map[*node]*branch)}
	r.room.L = &r.mu
	return r
}

// Submit implements Lane. It waits while too much is queued.
func (r *router) Submit(sink Sink, requests []Request, _ *poll.Loop, _ *Place) error {
	topology, err := r.cluster.load()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.queued > maxQueued && !r.closed {
		r.room.Wait()
	}
	if r.closed {
		return errClosed
	}
	if r.sink == nil {
		r.sink, r.topology = sink, topology
	}
	for i := range requests {
		r.enqueue(&requests[i])
	}
	r.dispatch()
	return nil
}

// enqueue makes an op of a request, with a copy of what it refers to.
func (r *router) enqueue(request *Request) {
	o := r.newOp()
	o.request = *request
	o.request.Run = commands.Run{} // keys of one script would be of many slots
	if small := &o.request; len(small.Bytes) < largeRequest {
		o.buf = append(append(o.buf[:0], small.Bytes...), small.Limiter...)
		small.Bytes, small.Limiter = o.buf[:len(small.Bytes)], o.buf[len(small.Bytes):]
	} else {
		small.Limiter = append([]byte(nil), small.Limiter...)
	}
	r.queued += len(o.request.Bytes)
	r.ops = append(r.ops, o)
}

func (r *router) newOp() *op {
	if n := len(r.spare); n > 0 {
		o := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return o
	}
	return &op{router: r}
}

// Ready implements Lane: a router may always have to wait.
func (r *router) Ready(Place) bool { return false }

// Connect implements Lane: it connects to the node that answers commands
// without keys.
func (r *router) Connect() error {
	stream, err := r.anchor()
	if err != nil {
		return err
	}
	return stream.Connect()
}

// NeedsAuth implements Lane.
func (r *router) NeedsAuth() bool {
	if r.cluster.now.Load() == nil {
		return false
	}
	stream, err := r.anchor()
	return err == nil && stream.NeedsAuth()
}

// anchor returns the stream to the node that answers commands without keys.
func (r *router) anchor() (*Stream, error) {
	topology, err := r.cluster.load()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.branch(topology.masters[0]).stream, nil
}

// Instead implements Lane.
func (r *router) Instead(limiter []byte) []byte {
	return r.cluster.backend.fallback.answer(r.id.DB, limiter)
}

// Denied implements Lane: nothing is known.
func (r *router) Denied(*commands.Call) ([]byte, bool) { return nil, false }

// Release implements Lane.
func (r *router) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, o := range r.ops {
		o.count(LostReply(errClosed)) // nobody is there to be answered
	}
	r.ops, r.next, r.again, r.spare = nil, 0, nil, nil
	r.room.Broadcast()
	r.dropPin()
	for _, b := range r.branches {
		b.stream.Release()
	}
	clear(r.branches)
}

// branch returns the way to a node; r.mu is held.
func (r *router) branch(n *node) *branch {
	b := r.branches[n]
	if b == nil {
		b = &branch{router: r, node: n, stream: n.backend.Acquire(r.id)}
		r.branches[n] = b
	}
	return b
}
