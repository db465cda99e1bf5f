package backend

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// The pause after a failed connection attempt doubles from the first to the
// second of these. Meanwhile commands are refused at once.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Stream is the upstream connection that all sessions of one identity share.
// Their commands leave in one pipeline, each session's in its own order. The
// connection is made when it is needed and made anew when it was lost; nothing
// is sent twice.
type Stream struct {
	backend *Backend
	id      Identity
	refs    int // guarded by backend.mu
	link    atomic.Pointer[link]

	mu      sync.Mutex // held while connecting
	backoff time.Duration
	retryAt time.Time
	err     error // of the last attempt
	closed  bool
}

// Submit sends requests upstream in order; sink will be given a reply to each.
// It may wait for a connection to be made and for room in the queue. An error
// says that nothing was sent.
func (s *Stream) Submit(sink Sink, requests []Request) error {
	for {
		l := s.link.Load()
		if l == nil {
			var err error
			if l, err = s.connect(); err != nil {
				return err
			}
		}
		if l.submit(sink, requests) == nil {
			return nil
		}
		s.link.CompareAndSwap(l, nil)
	}
}

// Connect makes the connection if there is none.
func (s *Stream) Connect() error {
	if s.link.Load() != nil {
		return nil
	}
	_, err := s.connect()
	return err
}

// NeedsAuth reports whether the upstream refuses commands on this stream until
// the client authenticates.
func (s *Stream) NeedsAuth() bool {
	l := s.link.Load()
	return l != nil && l.welcome.needsAuth
}

func (s *Stream) connect() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.link.Load(); l != nil {
		return l, nil
	}
	if s.closed {
		return nil, errClosed
	}
	if s.err != nil && time.Now().Before(s.retryAt) {
		return nil, s.err
	}
	ctx, cancel := context.WithTimeout(s.backend.ctx, s.backend.config.DialTimeout)
	defer cancel()
	l, err := s.backend.open(ctx, s.id, true, s.lost)
	s.attempted(err)
	if err != nil {
		return nil, err
	}
	s.link.Store(l)
	s.backend.watch(l)
	return l, nil
}

// attempted notes how a connection attempt went. A refusal by a healthy
// upstream is not held against the next attempt.
func (s *Stream) attempted(err error) {
	s.err = err
	if err == nil || isReplyError(err) {
		s.backoff, s.retryAt = 0, time.Time{}
		return
	}
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	s.retryAt = time.Now().Add(s.backoff/2 + rand.N(s.backoff/2))
	s.backend.log.Warn("cannot connect to upstream", "addr", s.backend.Addr(), "err", err)
}

// lost is called when a connection has ended and all it owed is answered.
func (s *Stream) lost(l *link, err error) {
	s.link.CompareAndSwap(l, nil)
	s.backend.unwatch(l)
	if err != errClosed {
		s.backend.log.Warn("upstream connection lost", "addr", s.backend.Addr(), "err", err)
	}
}

// close ends the stream for good.
func (s *Stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if l := s.link.Swap(nil); l != nil {
		l.close()
	}
}
