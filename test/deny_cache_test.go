package test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestDenyCacheTrustsNoClockThatStands replays what was recorded from redis-cell
// on a Redis whose clock stands and leaps: not one that a time can be told from.
func TestDenyCacheTrustsNoClockThatStands(t *testing.T) {
	replayRecorded(t, newClocked(t, "--deny-cache"))
}

// TestDenyCacheKeepsTheRate has many clients ask for far more than a key has, and
// counts what they get: no more than they may, and not much less.
func TestDenyCacheKeepsTheRate(t *testing.T) {
	const clients, burst, rate = 8, 20, 20
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--deny-cache")
	var asked, admitted atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range clients {
		conn := proxy.Dial(t)
		group.Go(func() {
			request := wire.Encode([]string{"CL.THROTTLE", "k", fmt.Sprint(burst - 1), fmt.Sprint(rate), "1"})
			for time.Since(began) < 2*time.Second {
				if _, err := conn.Write(request); err != nil {
					t.Error(err)
					return
				}
				reply, err := conn.ReadReply()
				if err != nil || !strings.HasPrefix(reply, "*5\r\n:") {
					t.Errorf("got %q, %v", reply, err)
					return
				}
				asked.Add(1)
				if strings.HasPrefix(reply, "*5\r\n:0") {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	most := burst + rate*time.Since(began).Seconds() + 1
	if got := float64(admitted.Load()); got > most || got < most/2 {
		t.Errorf("%v were admitted, want up to %v", got, most)
	}
	t.Logf("%d of %d were admitted, Redis ran %d", admitted.Load(), asked.Load(), scriptRuns(t, redis))
	if runs := scriptRuns(t, redis); runs > asked.Load()/2 {
		t.Errorf("Redis was asked %d times for %d requests", runs, asked.Load())
	}
}

// scriptRuns returns how many times Redis has run GET, as each limiter call does.
func scriptRuns(t *testing.T, redis *redistest.Server) (runs int64) {
	t.Helper()
	stats, err := redis.Client(t).Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`cmdstat_get:calls=(\d+)`).FindStringSubmatch(stats)
	if match == nil {
		t.Fatalf("no GET in %q", stats)
	}
	fmt.Sscan(match[1], &runs)
	return runs
}
