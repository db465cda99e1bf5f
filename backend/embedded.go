package backend

import (
	"context"
	"net"
	"strings"
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
		e.store.Server().SetPreHook(instead) // there is no server before
	}
	return conn, err
}

// instead answers what miniredis answers badly, and leaves it the rest.
func instead(client *server.Peer, command string, args ...string) bool {
	switch command {
	case "SINTERSTORE":
		// After an empty intersection the next SADD to the same key would end
		// the process: it is stored as a set that can't grow.
		client.WriteError("ERR SINTERSTORE is not supported by the embedded store")
		return true
	case "COMMAND":
		return len(args) > 0 && answerCommand(client, args)
	}
	return false
}

// answerCommand answers the subcommands of COMMAND, in whose place miniredis
// would tell its whole table. It has no documentation, so redis-cli, which asks
// for that, knows no commands but those that the proxy adds.
func answerCommand(client *server.Peer, args []string) bool {
	switch {
	case strings.EqualFold(args[0], "DOCS"):
		client.WriteMapLen(0)
	case strings.EqualFold(args[0], "INFO") && len(args) == 1:
		return false
	default:
		client.WriteError("ERR unknown subcommand '" + args[0] + "'.")
	}
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
