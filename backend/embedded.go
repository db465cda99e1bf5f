package backend

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// expiryTick is how often the embedded store looks for expired keys, and so
// how late they may go.
const expiryTick = 10 * time.Millisecond

// embedded is a store inside the process, for those who have no Redis at hand.
// It is reached over in-memory connections and is gone with the process.
type embedded struct {
	store *miniredis.Miniredis
	stop  chan struct{}
	tasks sync.WaitGroup
}

func newEmbedded() *embedded {
	e := &embedded{store: miniredis.NewMiniRedis(), stop: make(chan struct{})}
	e.tasks.Go(e.expire)
	return e
}

func (e *embedded) dial(context.Context, string, string) (net.Conn, error) {
	conn, err := e.store.Dial()
	if err == nil {
		e.store.Server().SetPreHook(refuseFatal)
	}
	return conn, err
}

// refuseFatal refuses the command after which the next SADD to the same key
// ends the process: an empty intersection is stored as a set that can't grow.
func refuseFatal(client *server.Peer, command string, _ ...string) bool {
	if command != "SINTERSTORE" {
		return false
	}
	client.WriteError("ERR SINTERSTORE is not supported by the embedded store")
	return true
}

// expire lets the store's clock run: by itself it stands still.
func (e *embedded) expire() {
	ticker := time.NewTicker(expiryTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-e.stop:
			return
		case now := <-ticker.C:
			e.store.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (e *embedded) close() {
	close(e.stop)
	e.tasks.Wait()
	e.store.Close()
}
