package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestScriptFlushIsInvisible has somebody flush the upstream's scripts all the
// time, directly and through cellproxy.
func TestScriptFlushIsInvisible(t *testing.T) {
	const clients, rounds, burst = 8, 60, 1_000_000
	redis := redistest.Start(t, redistest.Options{FakeClock: true})
	proxy := proxytest.Start(t, redis.URL())
	ctx, stop := context.WithCancel(t.Context())
	var flushers, work sync.WaitGroup
	for _, conn := range []*wire.Conn{redis.Dial(t), proxy.Dial(t)} {
		flushers.Go(func() {
			for ctx.Err() == nil {
				conn.Write(wire.Encode([]string{"SCRIPT", "FLUSH"}))
				if got, err := conn.ReadReply(); got != "+OK\r\n" {
					t.Errorf("SCRIPT FLUSH = %q, %v", got, err)
					return
				}
			}
		})
	}
	seen := make([][]int64, clients)
	for i := range clients {
		conn := proxy.Dial(t)
		work.Go(func() {
			for round := range rounds {
				got, err := throttleBetweenWrites(conn, fmt.Sprint(i, "/", round), burst)
				if err != nil {
					t.Errorf("client %d round %d: %v", i, round, err)
					return
				}
				seen[i] = append(seen[i], got...)
			}
		})
	}
	work.Wait()
	stop()
	flushers.Wait()
	charged := map[int64]bool{}
	for i := range seen {
		for _, remaining := range seen[i] {
			if charged[remaining] {
				t.Fatalf("remaining %d was told twice", remaining)
			}
			charged[remaining] = true
		}
	}
	if want := clients * rounds * 5; len(charged) != want || !charged[int64(burst+1-want)] {
		t.Errorf("%d admitted, lowest remaining as it should be: %v, want %d", len(charged), charged[int64(burst+1-want)], want)
	}
}

// throttleBetweenWrites sends limiter commands among others that show whether
// the order was kept, and returns what remained after each.
func throttleBetweenWrites(conn *wire.Conn, value string, burst int) ([]int64, error) {
	var commands [][]string
	for i := range 5 {
		commands = append(commands,
			[]string{"SET", "value" + value, fmt.Sprint(i)},
			[]string{"CL.THROTTLE", "shared", fmt.Sprint(burst), "1", "1000"},
			[]string{"GETDEL", "value" + value})
	}
	if _, err := conn.Write(wire.Encode(commands...)); err != nil {
		return nil, err
	}
	var remainders []int64
	for i := range 5 {
		var replies [3]string
		for j := range replies {
			var err error
			if replies[j], err = conn.ReadReply(); err != nil {
				return nil, err
			}
		}
		var limited, limit, remaining int64
		if n, _ := fmt.Sscanf(replies[1], "*5\r\n:%d\r\n:%d\r\n:%d\r\n", &limited, &limit, &remaining); n != 3 || limited != 0 {
			return nil, fmt.Errorf("CL.THROTTLE = %q", replies[1])
		}
		if replies[0] != "+OK\r\n" || replies[2] != bulk(fmt.Sprint(i)) {
			return nil, fmt.Errorf("out of order: %q", replies)
		}
		remainders = append(remainders, remaining)
	}
	return remainders, nil
}

// TestUpstreamRestart has the upstream go away and come back without scripts.
func TestUpstreamRestart(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	conn := proxy.Dial(t)
	throttle := []string{"CL.THROTTLE", "k", "15", "30", "60"}
	for round := range 3 {
		if got := conn.Do(throttle...); got != integers(0, 16, 15, -1, 2) {
			t.Fatalf("round %d: %q", round, got)
		}
		redis.Kill()
		begin := time.Now()
		if got := conn.Do(throttle...); !strings.HasPrefix(got, "-ERR upstream ") {
			t.Errorf("round %d, upstream away: %q", round, got)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("round %d: the error took %v", round, took)
		}
		redis.Restart()
		await(t, "cellproxy to be connected again", func() bool {
			got := conn.Do("PING")
			if got != "+PONG\r\n" && !strings.HasPrefix(got, "-ERR upstream ") {
				t.Fatalf("PING = %q", got)
			}
			return got == "+PONG\r\n"
		})
	}
}

// TestUpstreamAwayAtStart starts cellproxy first.
func TestUpstreamAwayAtStart(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Kill()
	proxy := proxytest.Start(t, redis.URL())
	conn := proxy.Dial(t)
	if got := conn.Do("GET", "k"); !strings.HasPrefix(got, "-ERR upstream ") {
		t.Errorf("GET = %q", got)
	}
	redis.Restart()
	await(t, "cellproxy to connect", func() bool {
		return conn.Do("CL.THROTTLE", "k", "15", "30", "60") == integers(0, 16, 15, -1, 2)
	})
}

// increments counts what became of the INCRs of one key.
type increments struct {
	key           string
	sent, counted int
	lastSeen      string
}

// TestNothingIsSentTwice kills or freezes the upstream again and again while
// clients increment. The upstream writes every change to disk before it
// replies, so that afterwards a counter tells how often INCR was run.
func TestNothingIsSentTwice(t *testing.T) {
	const rounds, clients = 30, 4
	redis := redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "no"}})
	proxy := proxytest.Start(t, redis.URL(), "--upstream-timeout", "300ms")
	rng := newRand(t)
	var counters []*increments
	var conns []*wire.Conn
	for i := range clients {
		counters = append(counters, &increments{key: fmt.Sprint("key", i)})
		conns = append(conns, proxy.Dial(t))
	}
	for round := range rounds {
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for i, c := range counters {
			work.Go(func() {
				for ctx.Err() == nil {
					if err := c.increment(conns[i], 1+i*30); err != nil {
						t.Errorf("round %d: %v", round, err)
						return
					}
				}
			})
		}
		interrupt(t, redis, rng, round%3 == 2)
		stop()
		work.Wait()
		direct := redis.Client(t)
		for _, c := range counters {
			got, err := direct.Get(t.Context(), c.key).Int()
			if err != nil || got > c.sent || got < c.counted {
				t.Fatalf("round %d, %s: the counter is %d (%v), sent %d, acknowledged %d", round, c.key, got, err, c.sent, c.counted)
			}
		}
	}
	for _, c := range counters {
		t.Logf("%s: %d sent, %d acknowledged", c.key, c.sent, c.counted)
		if c.counted == 0 || c.counted == c.sent {
			t.Errorf("%s: %d of %d acknowledged tells nothing", c.key, c.counted, c.sent)
		}
	}
}

// interrupt lets clients work for a moment, then takes the upstream away and
// brings it back.
func interrupt(t *testing.T, redis *redistest.Server, rng *rand.Rand, freeze bool) {
	t.Helper()
	time.Sleep(time.Duration(5+rng.IntN(20)) * time.Millisecond) // at any moment of their work
	if !freeze {
		redis.Restart()
		return
	}
	redis.Freeze()
	time.Sleep(500 * time.Millisecond) // longer than --upstream-timeout
	redis.Thaw()
}

// increment sends n INCRs in a pipeline and reads as many replies. Each must
// be a number higher than the one before, or an error of the upstream's being
// away.
func (c *increments) increment(conn *wire.Conn, n int) error {
	var commands [][]string
	for range n {
		commands = append(commands, []string{"INCR", c.key})
	}
	if _, err := conn.Write(wire.Encode(commands...)); err != nil {
		return err
	}
	c.sent += n
	for range n {
		reply, err := conn.ReadReply()
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(reply, ":"):
			if len(reply) < len(c.lastSeen) || len(reply) == len(c.lastSeen) && reply <= c.lastSeen {
				return fmt.Errorf("%s is %q after %q", c.key, reply, c.lastSeen)
			}
			c.lastSeen = reply
			c.counted++
		case !strings.HasPrefix(reply, "-ERR upstream ") && !strings.HasPrefix(reply, "-LOADING "):
			return fmt.Errorf("INCR = %q", reply)
		}
	}
	return nil
}
