package backend

import (
	"context"
	"sync"
	"sync/atomic"

	"cellproxy/backend/poll"
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
	cache   *denyCache // nil: no refusals are kept

	scripted   atomic.Bool          // clients' scripts have been submitted
	scripts    atomic.Pointer[link] // for clients' scripts, as soon as there is one
	connecting atomic.Bool          // scripts is being connected
	stalled    atomic.Pointer[link] // one of the links until a script took long

	mu     sync.Mutex // held while connecting
	closed bool
}

// Place is where on a stream the replies come from that a sink is owed. The zero
// Place is for a sink that is owed none.
type Place struct{ link *link }

// Submit sends requests upstream in order; sink will be given a reply to each.
// It may wait for a connection to be made and for room in the queue. An error
// says that nothing was sent. A handler of a loop passes the loop, which may
// write what all its handlers submit together; it is to see first that the
// stream is Ready.
//
// The stream may have more than one connection: at is where the sink's last
// requests went, whose replies must come first, and is told where these went.
func (s *Stream) Submit(sink Sink, requests []Request, loop *poll.Loop, at *Place) error {
	for l := at.link; ; l = nil {
		if l == nil {
			var err error
			if l, err = s.currentFor(requests); err != nil {
				return err
			}
		}
		if l.submit(sink, requests, loop) == nil {
			at.link = l
			return nil
		}
		// What is owed comes before what the next connection will answer.
		<-l.answered
		s.forget(l)
	}
}

// Ready reports whether Submit would not wait.
func (s *Stream) Ready(at Place) bool {
	l := at.link
	if l == nil {
		l = s.link.Load()
	}
	if l != nil {
		return l.ready()
	}
	return s.backend.Down() != nil
}

func (s *Stream) currentFor(requests []Request) (*link, error) {
	if hasScript(requests) {
		return s.forScripts()
	}
	return s.current()
}

// current returns the connection that new requests are to take.
func (s *Stream) current() (*link, error) {
	if l := s.link.Load(); l != nil {
		return l, nil
	}
	return s.connect()
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
	if err := s.backend.Down(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.link.Load(); l != nil {
		return l, nil
	}
	if s.closed {
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(s.backend.ctx, s.backend.config.DialTimeout)
	defer cancel()
	l, err := s.backend.open(ctx, s.id, true, s.lost)
	if err != nil {
		s.backend.counters.countFailedDial(err)
		s.backend.failed(err)
		return nil, err
	}
	s.link.Store(l)
	s.backend.watch(l, s)
	return l, nil
}

// Instead returns the reply to a limiter command that could not be sent, as the
// client sent it, or nil if the client is to be given the error.
func (s *Stream) Instead(limiter []byte) []byte {
	return s.backend.fallback.answer(s.id.DB, limiter)
}

// lost is called when a connection has ended and all it owed is answered.
func (s *Stream) lost(l *link, err error) {
	s.forget(l)
	s.backend.unwatch(l)
	if err != errClosed {
		s.backend.counters.lost.Add(1)
		s.backend.log.Warn("upstream connection lost", "addr", s.backend.Addr(), "err", err)
	}
}

// forget has nobody submit to l any more.
func (s *Stream) forget(l *link) {
	for _, p := range s.links() {
		p.CompareAndSwap(l, nil)
	}
}

func (s *Stream) links() [3]*atomic.Pointer[link] {
	return [...]*atomic.Pointer[link]{&s.link, &s.scripts, &s.stalled}
}

// close ends the stream for good.
func (s *Stream) close() {
	s.backend.dropDenials(s.cache)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.links() {
		if l := p.Swap(nil); l != nil {
			l.close()
		}
	}
}
