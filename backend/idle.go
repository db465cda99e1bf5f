package backend

import "time"

// How many clean private connections are kept for the next session of the same
// identity, and for how long. When there was a need, some are made in advance, so
// that a command that needs one is not overtaken by what other clients send while
// it is made.
const (
	minIdlePrivate  = 4
	maxIdlePrivate  = 64
	maxIdleOfAll    = 256 // of all identities
	idlePrivateTime = 3 * time.Minute
)

// takeIdle returns the connection that was put back last, or nil.
func (b *Backend) takeIdle(id Identity) *Private {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle := b.idle[id]
	for n := len(idle) + b.warming[id]; n <= minIdlePrivate && !b.closed; n++ {
		b.warming[id]++
		b.tasks.Go(func() { b.warm(id) })
	}
	if len(idle) == 0 {
		return nil
	}
	p := idle[len(idle)-1]
	b.idle[id] = idle[:len(idle)-1]
	b.idleCount--
	return p
}

// putIdle reports whether the connection is kept.
func (b *Backend) putIdle(p *Private) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.private[p] || len(b.idle[p.id]) >= maxIdlePrivate || b.idleCount >= maxIdleOfAll {
		return false
	}
	p.idleSince = time.Now()
	b.idle[p.id] = append(b.idle[p.id], p)
	b.idleCount++
	return true
}

// removeIdle forgets a connection that has ended; b.mu is held.
func (b *Backend) removeIdle(p *Private) {
	idle := b.idle[p.id]
	for i, q := range idle {
		if q == p {
			b.idle[p.id] = append(idle[:i], idle[i+1:]...)
			b.idleCount--
			return
		}
	}
}

// retireIdle closes connections that nobody has needed for long, until the backend
// is closed.
func (b *Backend) retireIdle() {
	ticker := time.NewTicker(idlePrivateTime / 4)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case now := <-ticker.C:
			b.closeIdlePrivate(now.Add(-idlePrivateTime))
		}
	}
}

// closeIdlePrivate closes the connections that have been idle since that time.
func (b *Backend) closeIdlePrivate(since time.Time) {
	var old []*Private
	b.mu.Lock()
	for id, idle := range b.idle {
		n := 0 // those that were put back first come first
		for n < len(idle) && !idle[n].idleSince.After(since) {
			n++
		}
		old = append(old, idle[:n]...)
		b.idleCount -= n
		if b.idle[id] = append([]*Private(nil), idle[n:]...); n == len(idle) {
			delete(b.idle, id)
		}
	}
	b.mu.Unlock()
	for _, p := range old {
		p.Discard()
	}
}
