package backend

import "time"

// watchdogPause is how often the watchdog looks, if the timeout does not ask for
// more.
const watchdogPause = 100 * time.Millisecond

// watch is what the watchdog knows of a link.
type watch struct {
	stream   *Stream // of a shared link, or nil
	progress uint64
	since    time.Time
	asking   bool // another connection whether the upstream is alive
}

// watch has the watchdog look after a link. stream is nil if only one session
// uses it.
func (b *Backend) watch(l *link, stream *Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		l.fail(errClosed)
	}
	if !l.failed() {
		b.watched[l] = &watch{stream: stream, since: time.Now()}
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
	ticker := time.NewTicker(min(b.config.Timeout/8, watchdogPause))
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case now := <-ticker.C:
			if b.failSilent(now) {
				b.failed(errTimeout)
			}
			b.relieveStreams(now)
		}
	}
}

// failSilent reports whether it has given up any link.
func (b *Backend) failSilent(now time.Time) (found bool) {
	paused := b.Paused()
	b.mu.Lock()
	defer b.mu.Unlock()
	for l, w := range b.watched {
		progress := l.progress.Load()
		switch {
		case paused || l.inFlight.Load() == 0 || l.waiting.Load() > 0 || progress != w.progress:
			w.progress, w.since = progress, now
		case now.Sub(w.since) < b.config.Timeout:
		case l.scripts.Load() == 0:
			l.fail(errTimeout)
			b.counters.silent.Add(1)
			found = true
		case !w.asking:
			w.asking = true
			b.tasks.Go(func() { b.ask(l, w) })
		}
	}
	return found
}

// ask finds out whether it is the upstream that is dead or a script on this link
// that is slow: then the upstream answers others, if only that it is busy.
func (b *Backend) ask(l *link, w *watch) {
	err := b.look()
	if err != nil && !isReplyError(err) {
		l.fail(errTimeout)
		b.failed(errTimeout)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w.asking, w.since = false, time.Now()
}
