package backend

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// idleNow returns how many private connections are kept, by both accounts.
func (b *Backend) idleNow() (listed, counted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, idle := range b.idle {
		listed += len(idle)
	}
	return listed, b.idleCount
}

// expectIdle waits until so many are kept.
func expectIdle(t *testing.T, b *Backend, want int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		listed, counted := b.idleNow()
		if listed == want && counted == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are kept, counted as %d, want %d", listed, counted, want)
		}
	}
}

// quietBackend has the embedded store as its upstream, and makes no connections in
// advance as identity.
func quietBackend(t *testing.T, identities ...Identity) *Backend {
	t.Helper()
	b, err := New(Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	for _, id := range identities {
		b.warming[id] = 2 * maxIdlePrivate // as if they were under way
	}
	return b
}

// borrow takes n connections at once.
func borrow(t *testing.T, b *Backend, id Identity, n int) []*Private {
	t.Helper()
	var all []*Private
	for range n {
		p, err := b.Private(context.Background(), id, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	var ids []Identity
	for db := range 6 {
		ids = append(ids, Identity{DB: db, Protocol: 2})
	}
	b := quietBackend(t, ids...)
	for i, id := range ids {
		for range maxIdlePrivate + 3 {
			p := &Private{backend: b, id: id}
			b.private[p] = true
			b.putIdle(p)
		}
		expectIdle(t, b, min((i+1)*maxIdlePrivate, maxIdleOfAll))
	}
	p := b.takeIdle(ids[0])
	expectIdle(t, b, maxIdleOfAll-1)
	if !b.putIdle(p) {
		t.Error("a connection that there is room for is not kept")
	}
	for p := range b.private {
		b.removePrivate(p)
	}
	expectIdle(t, b, 0)
}

func TestIdleConnectionsAreClosedByAge(t *testing.T) {
	id := Identity{Protocol: 2}
	b := quietBackend(t, id)
	connections := borrow(t, b, id, 5)
	for _, p := range connections[:3] {
		p.Release()
	}
	before := time.Now()
	for _, p := range connections[3:] {
		p.Release()
	}
	if b.closeIdlePrivate(before); !connections[0].link.failed() {
		t.Error("an old connection has not been closed")
	}
	expectIdle(t, b, 2)
	for _, p := range borrow(t, b, id, 2) {
		if p != connections[3] && p != connections[4] {
			t.Error("a new connection was made while two were idle")
		}
		p.Release()
	}
	connections[4].link.fail(errClosed) // as the upstream may
	expectIdle(t, b, 1)
	b.closeIdlePrivate(time.Now())
	expectIdle(t, b, 0)
}

func TestDirtyConnectionsAreDiscarded(t *testing.T) {
	id := Identity{Protocol: 2}
	b := quietBackend(t, id)
	connections := borrow(t, b, id, 2)
	connections[0].PassThrough()
	connections[1].link.inFlight.Add(1)
	for i, p := range connections {
		if p.Release(); !p.link.failed() {
			t.Errorf("connection %d was kept", i)
		}
	}
	expectIdle(t, b, 0)
}
