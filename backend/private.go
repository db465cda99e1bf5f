package backend

import (
	"context"
	"sync"
	"time"
)

// Private is an upstream connection of one session's own, for what a shared
// one can't carry: transactions, blocking commands, subscriptions.
type Private struct {
	backend *Backend
	id      Identity
	link    *link

	// Name is for the session to note what CLIENT SETNAME has set; it stays
	// when the connection is released.
	Name string

	mu        sync.Mutex
	sink      Sink      // nil while the connection is idle
	passing   bool      // everything goes to the sink's Raw
	idleSince time.Time // guarded by backend.mu
}

// Private returns a clean connection for id, an idle one or a new one. Its
// replies go to sink, which is also told should it be lost.
func (b *Backend) Private(ctx context.Context, id Identity, sink Sink) (*Private, error) {
	for p := b.takeIdle(id); p != nil; p = b.takeIdle(id) {
		if p.attach(sink) {
			return p, nil
		}
	}
	return b.openPrivate(ctx, id, sink)
}

func (b *Backend) openPrivate(ctx context.Context, id Identity, sink Sink) (*Private, error) {
	p := &Private{backend: b, id: id, sink: sink}
	if err := b.Down(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.config.DialTimeout)
	defer cancel()
	l, err := b.open(ctx, id, false, p.lost)
	if err != nil {
		b.counters.countFailedDial(err)
		b.failed(err)
		return nil, err
	}
	p.link = l
	b.addPrivate(p)
	b.watch(l, nil)
	return p, nil
}

// warm makes an idle connection in advance.
func (b *Backend) warm(id Identity) {
	if p, err := b.openPrivate(b.ctx, id, nil); err == nil {
		p.Release()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warming[id]--
	if b.warming[id] == 0 {
		delete(b.warming, id)
	}
}

// Submit sends requests in order. An error says that nothing was sent.
func (p *Private) Submit(requests []Request) error {
	p.mu.Lock()
	sink := p.sink
	p.mu.Unlock()
	return p.link.submit(sink, requests, nil)
}

// ClientID is the upstream's number for the connection, as CLIENT ID tells it,
// or 0 if the upstream does not say.
func (p *Private) ClientID() int64 {
	return p.link.welcome.clientID
}

// PassThrough gives all that the upstream sends from now on to the sink's Raw.
// Nothing may be owed. From then on the connection can only be discarded.
func (p *Private) PassThrough() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passing = true
	p.link.passThrough(p.sink)
}

// PassesThrough reports whether that has been called.
func (p *Private) PassesThrough() bool {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return p.link.raw != nil
}

// Release puts the connection back for others to use. The caller vouches that
// no reply is owed and that the connection is as it was when it was new; one of
// which that can't be is discarded.
func (p *Private) Release() {
	p.mu.Lock()
	p.sink = nil
	dirty := p.passing || p.link.inFlight.Load() > 0
	p.mu.Unlock()
	if dirty || !p.backend.putIdle(p) {
		p.Discard()
	}
}

// Discard ends the connection; its sink hears no more of it.
func (p *Private) Discard() {
	p.mu.Lock()
	p.sink = nil
	p.mu.Unlock()
	p.link.fail(errClosed)
}

// attach gives an idle connection to a session. It reports false when the
// connection has ended meanwhile.
func (p *Private) attach(sink Sink) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink = sink
	return !p.link.failed()
}

// lost is called when the connection has ended and all it owed is answered.
func (p *Private) lost(l *link, err error) {
	p.backend.unwatch(l)
	p.backend.removePrivate(p)
	if err != errClosed {
		p.backend.counters.lost.Add(1)
	}
	p.mu.Lock()
	sink := p.sink
	p.mu.Unlock()
	if sink != nil {
		sink.Lost(err)
	}
}
