package backend

import "time"

// Pause tells that the upstream lets clients wait for d, as CLIENT PAUSE asks
// for. Until then a shared connection is no place for requests, because one that
// waits would stall everybody's behind it, and silence is no sign of death. d of 0
// ends the pause.
func (b *Backend) Pause(d time.Duration) {
	b.pausedUntil.Store(time.Now().Add(d).UnixNano())
}

// Paused reports whether the upstream lets clients wait.
func (b *Backend) Paused() bool {
	until := b.pausedUntil.Load()
	if until == 0 {
		return false
	}
	if time.Now().UnixNano() < until {
		return true
	}
	b.pausedUntil.CompareAndSwap(until, 0)
	return false
}
