package test

import (
	"context"
	"fmt"
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
