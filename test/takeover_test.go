package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestRollingRestart replaces two cellproxies in turn, again and again, while
// clients of both count and take from one limit. Nobody may be refused a
// connection, no command may be lost or run without an answer, and the limit
// has to hold.
func TestRollingRestart(t *testing.T) {
	const clients, rounds = 24, 4
	const burst, count, period = 100, 500, 1
	redis := redistest.Start(t, redistest.Options{})
	proxies := []*proxytest.Proxy{proxytest.Start(t, redis.URL()), proxytest.Start(t, redis.URL())}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	all := make([]roller, clients)
	began := time.Now()
	for i := range all {
		r := &all[i]
		*r = roller{
			addr: proxies[i%2].Addr(), key: fmt.Sprint("client", i),
			throttle: []string{"CL.THROTTLE", "shared", fmt.Sprint(burst), fmt.Sprint(count), fmt.Sprint(period)},
		}
		work.Go(func() {
			if err := r.work(ctx, t); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	for range rounds {
		for _, proxy := range proxies {
			proxy.Upgrade()
			time.Sleep(200 * time.Millisecond) // of work for the new one
		}
	}
	stop()
	work.Wait()
	most := burst + 1 + int(time.Since(began).Seconds()*count/period) + 1
	admitted, reconnects := 0, 0
	direct := redis.Dial(t)
	for i := range all {
		r := &all[i]
		admitted += r.admitted
		reconnects += r.reconnects
		if got, want := direct.Do("GET", r.key), bulk(fmt.Sprint(r.counted)); got != want {
			t.Errorf("client %d: the counter is %q, want %q", i, got, want)
		}
	}
	t.Logf("%d admitted of at most %d; %d reconnects", admitted, most, reconnects)
	if admitted > most || admitted <= burst {
		t.Errorf("%d admitted, want more than %d and at most %d", admitted, burst, most)
	}
	if reconnects < clients {
		t.Errorf("%d reconnects: that tells nothing", reconnects)
	}
}

// roller is a client that connects again when its connection was closed, and
// sends again what was not answered.
type roller struct {
	addr, key string
	throttle  []string

	counted, admitted, reconnects int
}

func (r *roller) work(ctx context.Context, t *testing.T) error {
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			return err
		}
		err = r.converse(ctx, wire.NewConn(t, conn))
		conn.Close()
		if err != nil {
			return err
		}
		r.reconnects++
	}
	return nil
}

// converse sends pipelines until the connection is closed.
func (r *roller) converse(ctx context.Context, conn *wire.Conn) error {
	count := []string{"INCR", r.key}
	for ctx.Err() == nil {
		_, err := conn.Write(wire.Encode(count, r.throttle, count))
		if errors.Is(err, syscall.EPIPE) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range 3 {
			reply, err := conn.ReadReply()
			if errors.Is(err, io.EOF) && reply == "" {
				return nil
			}
			if err != nil {
				return err
			}
			if err := r.take(i, reply); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *roller) take(i int, reply string) error {
	switch {
	case i != 1 && reply == fmt.Sprintf(":%d\r\n", r.counted+1):
		r.counted++
	case i == 1 && strings.HasPrefix(reply, "*5\r\n:0\r\n"):
		r.admitted++
	case i == 1 && strings.HasPrefix(reply, "*5\r\n:1\r\n"):
	default:
		return fmt.Errorf("reply %d is %q after %d", i, reply, r.counted)
	}
	return nil
}

// TestFailedUpgradeChangesNothing has the new process not come up.
func TestFailedUpgradeChangesNothing(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	users := t.TempDir() + "/users"
	write := func(text string) {
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("default secret\n")
	proxy := proxytest.Start(t, redis.URL(), "--users-file", users)
	conn := proxy.Dial(t)
	conn.Do("AUTH", "secret")
	pid := proxy.Pid()
	write("nonsense\n")
	syscall.Kill(pid, syscall.SIGUSR2)
	await(t, "the failure to be logged", func() bool {
		return strings.Contains(proxy.Output(), "did not take over")
	})
	if got := conn.Do("PING"); got != "+PONG\r\n" || proxy.Pid() != pid {
		t.Errorf("PING = %q of process %d, was %d", got, proxy.Pid(), pid)
	}
	other := proxy.Dial(t)
	if got := other.Do("AUTH", "secret"); got != "+OK\r\n" {
		t.Errorf("AUTH on a new connection = %q", got)
	}
}
