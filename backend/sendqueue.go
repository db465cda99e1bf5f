package backend

import "net"

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
}

// add queues b behind what is there. A large b is kept, not copied: it must
// not change afterwards.
func (q *sendQueue) add(b []byte) {
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
	small, large = q.tail, q.chunks
	q.tail, q.chunks, q.size = q.spare[:0], nil, 0
	q.spare = nil
	if cap(small) <= keptBuffer {
		q.spare = small
	}
	if len(large) > 0 && len(small) > 0 {
		large, small = append(large, small), nil
	}
	return small, large
}
