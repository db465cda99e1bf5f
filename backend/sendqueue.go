package backend

import (
	"net"

	"cellproxy/backend/cluster"
	"cellproxy/commands"
)

// largeRequest is the size from which a request is sent from where it lies
// instead of being copied among its neighbours.
const largeRequest = 64 << 10

// largePiece is how much of it is written at a time.
const largePiece = 256 << 10

// keptBuffer is the largest copy buffer kept for the next batch.
const keptBuffer = 1 << 20

// sendQueue gathers the requests of many sessions into few writes. It is not
// safe for concurrent use.
type sendQueue struct {
	chunks net.Buffers // finished, in order
	tail   []byte      // small requests copied one behind the other
	spare  []byte      // the tail before, for reuse
	size   int         // bytes queued

	commands int // queued

	// The runs at the end of the queue that can still be joined, those that can't
	// any more, and the scripts that were sent for them.
	open   openBatch
	closed []closedBatch
	told   int // of closed
	loaded map[*commands.Script]bool
}

// The most that is put into one run of a script: the upstream serves nobody else
// meanwhile.
const (
	maxRuns     = 16
	maxRunBytes = 16 << 10
)

// openBatch are runs of one script that will leave as one.
type openBatch struct {
	commands.Run // of the first its script and count, of all the rest
	runs         int
}

// closedBatch are runs that leave as one.
type closedBatch struct {
	runs  int
	loads bool // a SCRIPT LOAD goes before them
}

// addRun queues a run of a script. One that follows another of the same joins
// it: the upstream needs a third less time for many in one.
func (q *sendQueue) addRun(run commands.Run) {
	q.commands++
	o := &q.open
	if o.runs == maxRuns || o.runs > 0 && (o.Script != run.Script || o.Count != run.Count) ||
		len(o.Key)+len(o.Arguments) > maxRunBytes {
		q.closeBatch()
	}
	if o.runs == 0 {
		o.Script, o.Count = run.Script, run.Count
	}
	o.Key = append(o.Key, run.Key...)
	o.Arguments = append(o.Arguments, run.Arguments...)
	o.runs++
	q.size += len(run.Key) + len(run.Arguments)
}

// closeBatch lets no more runs join.
func (q *sendQueue) closeBatch() {
	o := &q.open
	if o.runs == 0 {
		return
	}
	before := len(q.tail)
	loads := o.runs > 1 && !q.loaded[o.Script]
	if loads {
		if q.loaded == nil {
			q.loaded = make(map[*commands.Script]bool)
		}
		q.loaded[o.Script] = true
		q.tail = cluster.AppendCommand(q.tail, "SCRIPT", "LOAD", o.Script.Batch.Source)
	}
	q.tail = o.Script.AppendRuns(q.tail, o.runs, o.Count)
	q.size += len(q.tail) - before
	q.tail = append(append(q.tail, o.Key...), o.Arguments...)
	q.closed = append(q.closed, closedBatch{o.runs, loads})
	o.runs, o.Key, o.Arguments = 0, o.Key[:0], o.Arguments[:0]
}

// nextBatch returns the oldest closed batch that it has not told of.
func (q *sendQueue) nextBatch() closedBatch {
	b := q.closed[q.told]
	if q.told++; q.told == len(q.closed) {
		q.closed, q.told = q.closed[:0], 0
	}
	return b
}

// add queues b behind what is there. A large b is kept, not copied: it must
// not change afterwards.
func (q *sendQueue) add(b []byte) {
	q.commands++
	q.closeBatch()
	q.size += len(b)
	if len(b) < largeRequest {
		q.tail = append(q.tail, b...)
		return
	}
	if len(q.tail) > 0 {
		q.chunks = append(q.chunks, q.tail)
		q.tail = nil
	}
	q.chunks = append(q.chunks, b)
}

// take empties the queue. What it returns is valid until the second take from
// then.
func (q *sendQueue) take() (small []byte, large net.Buffers) {
	q.closeBatch()
	small, large = q.tail, q.chunks
	q.tail, q.chunks, q.size, q.commands = q.spare[:0], nil, 0, 0
	q.spare = nil
	if cap(small) <= keptBuffer {
		q.spare = small
	}
	if len(large) > 0 && len(small) > 0 {
		large, small = append(large, small), nil
	}
	return small, large
}
