package backend

import "time"

// watch is what the watchdog knows of a link.
type watch struct {
	progress uint64
	since    time.Time
}

// watch has the watchdog look after a link.
func (b *Backend) watch(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		l.fail(errClosed)
	}
	if !l.failed() {
		b.watched[l] = &watch{since: time.Now()}
	}
}

func (b *Backend) unwatch(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watched, l)
}

// watchdog gives up links that owe replies and hear nothing, and then the
// upstream. A blocking command waits for as long as it was told to, and those
// behind it with it. One ticker for all costs less than a deadline for every
// read.
func (b *Backend) watchdog() {
	ticker := time.NewTicker(b.config.Timeout / 8)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case now := <-ticker.C:
			if b.failSilent(now) {
				b.failed(errTimeout)
			}
		}
	}
}

// failSilent reports whether it has given up any link.
func (b *Backend) failSilent(now time.Time) (found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l, w := range b.watched {
		progress := l.progress.Load()
		if l.inFlight.Load() == 0 || l.waiting.Load() > 0 || progress != w.progress {
			w.progress, w.since = progress, now
		} else if now.Sub(w.since) >= b.config.Timeout {
			l.fail(errTimeout)
			found = true
		}
	}
	return found
}
