package test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// attempt is one CL.THROTTLE and the upstream's time before and after it.
type attempt struct {
	before, after int64 // microseconds
	admitted      bool
}

// tally sums up the attempts of many clients.
type tally struct {
	admitted                int64
	firstBefore, firstAfter int64 // around the earliest attempt
	lastAdmitted            int64 // the latest end of an admission
	lastRefused             int64 // the latest begin of a refusal
}

func (s *tally) add(a attempt) {
	if s.firstAfter == 0 || a.after < s.firstAfter {
		s.firstAfter = a.after
	}
	if s.firstBefore == 0 || a.before < s.firstBefore {
		s.firstBefore = a.before
	}
	if a.admitted {
		s.admitted++
		s.lastAdmitted = max(s.lastAdmitted, a.after)
	} else {
		s.lastRefused = max(s.lastRefused, a.before)
	}
}

// TestManyClientsOfTwoProxiesShareOneLimit hammers one key and compares what
// was admitted with burst+1 + rate x time, by the clock of the upstream.
func TestManyClientsOfTwoProxiesShareOneLimit(t *testing.T) {
	const (
		clients  = 64
		duration = 5 * time.Second
		burst    = 49
		rate     = 100 // per second
	)
	redis := redistest.Start(t, redistest.Options{})
	proxies := []*proxytest.Proxy{proxytest.Start(t, redis.URL()), proxytest.Start(t, redis.URL())}
	attempts := make([][]attempt, clients)
	errs := make([]error, clients)
	end := time.Now().Add(duration)
	var work sync.WaitGroup
	for i := range clients {
		conn := proxies[i%len(proxies)].Dial(t)
		work.Go(func() { attempts[i], errs[i] = hammer(conn, end, burst, rate) })
	}
	work.Wait()

	var sum tally
	for i := range attempts {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if len(attempts[i]) < 10 {
			t.Errorf("client %d made %d attempts only", i, len(attempts[i]))
		}
		for _, a := range attempts[i] {
			sum.add(a)
		}
	}
	// Never more than what has come by the last admission ...
	most := burst + 1 + rate*float64(sum.lastAdmitted-sum.firstBefore)/1e6
	// ... and no less than makes the last refusal right.
	least := burst + rate*float64(sum.lastRefused-sum.firstAfter)/1e6
	if n := float64(sum.admitted); n > most || n < least {
		t.Errorf("admitted %v, want between %.2f and %.2f", n, least, most)
	}
	if most-least > 3 {
		t.Errorf("bounds %.2f and %.2f are too far apart to tell", least, most)
	}
}

// hammer attempts until the end, one attempt after the other.
func hammer(conn *wire.Conn, end time.Time, burst, rate int) ([]attempt, error) {
	request := wire.Encode([]string{"TIME"},
		[]string{"CL.THROTTLE", "hammered", fmt.Sprint(burst), fmt.Sprint(rate), "1"}, []string{"TIME"})
	var attempts []attempt
	for time.Now().Before(end) {
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		var replies [3]string
		for i := range replies {
			var err error
			if replies[i], err = conn.ReadReply(); err != nil {
				return nil, err
			}
		}
		a := attempt{admitted: strings.HasPrefix(replies[1], "*5\r\n:0\r\n")}
		if !a.admitted && !strings.HasPrefix(replies[1], "*5\r\n:1\r\n") {
			return nil, fmt.Errorf("CL.THROTTLE = %q", replies[1])
		}
		a.before, a.after = micros(replies[0]), micros(replies[2])
		attempts = append(attempts, a)
	}
	return attempts, nil
}

// micros reads the reply of TIME.
func micros(reply string) int64 {
	var n1, n2, seconds, micros int64
	fmt.Sscanf(reply, "*2\r\n$%d\r\n%d\r\n$%d\r\n%d\r\n", &n1, &seconds, &n2, &micros)
	return seconds*1_000_000 + micros
}
