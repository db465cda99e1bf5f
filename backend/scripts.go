package backend

import (
	"context"
	"time"
)

// A script of a client's may take long or never end. Redis then answers other
// connections that it is busy, and lets them end the script; what is behind the
// script on its own connection waits. So that this is not everybody, scripts
// have a connection of their own on each stream.

// stallTime is how long a script may keep those behind it waiting until new
// requests are led around it: far more than a script should take, far less than
// it may (busy-reply-threshold, 5 s unless set).
const stallTime = 200 * time.Millisecond

// hasScript reports whether a client's script is among the requests.
func hasScript(requests []Request) bool {
	for i := range requests {
		if requests[i].Script {
			return true
		}
	}
	return false
}

// forScripts returns the connection that new requests with a script among them
// are to take. Until there is one for scripts, that is the same as for others.
func (s *Stream) forScripts() (*link, error) {
	if l := s.scripts.Load(); l != nil {
		return l, nil
	}
	s.scripted.Store(true)
	return s.current()
}

// relieveStreams leads new requests around scripts that take long, closes the
// connections that were left so once nothing is owed there, and connects those
// for scripts where there is a need.
func (b *Backend) relieveStreams(now time.Time) {
	for _, l := range b.stalled(now) {
		l.stream.leave(l.link)
	}
	for _, s := range b.scripted() {
		if l := s.stalled.Load(); l != nil {
			l.closeIfDone()
		}
		if s.scripts.Load() == nil && s.connecting.CompareAndSwap(false, true) {
			b.tasks.Go(s.connectForScripts)
		}
	}
}

// streamLink is one connection of a stream.
type streamLink struct {
	stream *Stream
	link   *link
}

// stalled returns the shared connections that owe the reply to a script and have
// been silent for long.
func (b *Backend) stalled(now time.Time) (found []streamLink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l, w := range b.watched {
		if w.stream != nil && l.scripts.Load() > 0 && now.Sub(w.since) >= stallTime {
			found = append(found, streamLink{w.stream, l})
		}
	}
	return found
}

// scripted returns the streams that have carried scripts.
func (b *Backend) scripted() (found []*Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.streams {
		if s.scripted.Load() && b.embedded == nil {
			found = append(found, s)
		}
	}
	return found
}

// leave has new requests take another connection than l. Those who are owed
// replies on l go on there until they have them.
func (s *Stream) leave(l *link) {
	if !s.stalled.CompareAndSwap(nil, l) {
		return
	}
	if !s.scripts.CompareAndSwap(l, nil) {
		other := s.scripts.Swap(nil)
		if !s.link.CompareAndSwap(l, other) {
			s.stalled.CompareAndSwap(l, nil)
			if other != nil {
				other.fail(errClosed)
			}
			return
		}
	}
	s.backend.log.Warn("a script takes long", "addr", s.backend.Addr())
}

// connectForScripts makes the connection for scripts. If it can't, whoever looks
// after the streams tries again.
func (s *Stream) connectForScripts() {
	defer s.connecting.Store(false)
	if s.backend.Down() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.backend.ctx, s.backend.config.DialTimeout)
	defer cancel()
	l, err := s.backend.open(ctx, s.id, true, s.lost)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.fail(errClosed)
		return
	}
	s.scripts.Store(l)
	s.backend.watch(l, s)
	if l.failed() { // perhaps before it could be found to be lost
		s.scripts.CompareAndSwap(l, nil)
	}
}

// closeIfDone closes the link unless it owes replies.
func (l *link) closeIfDone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight.Load() == 0 {
		l.failLocked(errClosed)
	}
}
