package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellproxy/backend/cluster"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// turmoil is what a cluster goes through, and what its clients have seen.
type turmoil struct {
	killed     atomic.Int64 // when that was, in Unix microseconds, or 0
	served     atomic.Int64 // replies without an error
	ofLost     atomic.Int64 // of these, of slots of the killed master
	refused    atomic.Int64 // commands that were not run
	unknown    atomic.Int64 // commands that may have been run
	over       atomic.Bool
	limiters   []string
	wrongMu    sync.Mutex
	wrong      []string
	admissions [][]admission // by limiter
}

type admission struct{ sent, answered int64 }

func (u *turmoil) isLost(key string) bool { return cluster.Slot([]byte(key)) >= turmoilKilled }

func (u *turmoil) report(format string, args ...any) {
	u.wrongMu.Lock()
	defer u.wrongMu.Unlock()
	if len(u.wrong) < 20 {
		u.wrong = append(u.wrong, fmt.Sprintf(format, args...))
	}
}

// count sorts an error reply. It reports whether the command may have been run.
func (u *turmoil) count(key, reply string) (unknown bool) {
	switch {
	case strings.HasPrefix(reply, "-ERR upstream connection lost before the reply, the command may have been run"):
		u.unknown.Add(1)
		unknown = true
	case strings.HasPrefix(reply, "-ERR upstream unavailable, the command was not run"),
		strings.HasPrefix(reply, "-TRYAGAIN "), strings.HasPrefix(reply, "-CLUSTERDOWN "):
		u.refused.Add(1)
	default:
		u.report("%s: %q", key, reply)
	}
	if u.killed.Load() == 0 {
		u.report("%s, before anything was killed: %q", key, reply)
	}
	return unknown
}

// value is what a client knows of a key of its own, to which it gives numbers in
// their order.
type value struct {
	key      string
	last     int   // the number that is there
	maybe    []int // those that may have come after it
	lostSome bool  // the failover has taken what was last
}

// check looks at what GETSET has returned in exchange for the next number.
func (v *value) check(u *turmoil, reply string, next int) {
	if strings.HasPrefix(reply, "-") {
		if u.count(v.key, reply) {
			v.maybe = append(v.maybe, next)
		}
		return
	}
	before := 0
	if reply != "$-1\r\n" && reply != "_\r\n" {
		before, _ = strconv.Atoi(strings.Split(reply, "\r\n")[1])
	}
	if before != v.last && !slices.Contains(v.maybe, before) {
		mayBeLost := u.killed.Load() > 0 && u.isLost(v.key) && !v.lostSome && before < next
		if !mayBeLost {
			u.report("%s was %d before %d, want %d or one of %v", v.key, before, next, v.last, v.maybe)
		}
		v.lostSome = true
	}
	v.last, v.maybe = next, v.maybe[:0]
	u.served.Add(1)
	if u.isLost(v.key) {
		u.ofLost.Add(1)
	}
}

// exchange gives numbers to keys of its own, in pipelines, until the turmoil is
// over.
func (u *turmoil) exchange(conn *wire.Conn, name string, random *rand.Rand) error {
	values := make([]value, 40)
	for i := range values {
		values[i].key = turmoilKey(fmt.Sprintf("%s:%d", name, i), i)
	}
	for next := 1; !u.over.Load(); {
		var pipeline [][]string
		var whose []*value
		first := next
		for range 1 + random.IntN(60) {
			v := &values[random.IntN(len(values))]
			whose = append(whose, v)
			pipeline = append(pipeline, []string{"GETSET", v.key, fmt.Sprint(next)})
			next++
		}
		if _, err := conn.Write(wire.Encode(pipeline...)); err != nil {
			return err
		}
		for i, v := range whose {
			reply, err := conn.ReadReply()
			if err != nil {
				return err
			}
			v.check(u, reply, first+i)
		}
	}
	return nil
}

const (
	turmoilLimits = 6
	turmoilBurst  = 49
	turmoilRate   = 50 // per second
	turmoilMoved  = 60 // slots, from 0 on
	turmoilKilled = cluster.Slots * 2 / 3
)

// turmoilKey returns a key that begins so. Of three in a row, one is in a slot
// that is moved, and one in a slot of the master that is killed.
func turmoilKey(name string, i int) string {
	for n := 0; ; n++ {
		key := fmt.Sprint(name, ":", n)
		slot := cluster.Slot([]byte(key))
		if i%3 == 0 && slot < turmoilMoved || i%3 == 1 && slot >= turmoilKilled || i%3 == 2 {
			return key
		}
	}
}

// attempt calls limiters that all clients share, until the turmoil is over.
func (u *turmoil) attempt(conn *wire.Conn, mu *sync.Mutex) error {
	for !u.over.Load() {
		var pipeline [][]string
		for _, key := range u.limiters {
			pipeline = append(pipeline, []string{"CL.THROTTLE", key, fmt.Sprint(turmoilBurst), fmt.Sprint(turmoilRate), "1"})
		}
		sent := time.Now().UnixMicro()
		if _, err := conn.Write(wire.Encode(pipeline...)); err != nil {
			return err
		}
		for i := range turmoilLimits {
			reply, err := conn.ReadReply()
			if err != nil {
				return err
			}
			switch {
			case strings.HasPrefix(reply, "*5\r\n:0\r\n"):
				mu.Lock()
				u.admissions[i] = append(u.admissions[i], admission{sent, time.Now().UnixMicro()})
				mu.Unlock()
			case strings.HasPrefix(reply, "-"):
				u.count(u.limiters[i], reply)
			case !strings.HasPrefix(reply, "*5\r\n:1\r\n"):
				u.report("CL.THROTTLE = %q", reply)
			}
		}
	}
	return nil
}

// checkLimits compares what was admitted with burst + 1 + rate x time. A replica
// that takes its master's place may not have had the last writes, far less than
// a second's: as many may be admitted once more.
func (u *turmoil) checkLimits(t *testing.T) {
	t.Helper()
	killed := u.killed.Load()
	for i, admissions := range u.admissions {
		if len(admissions) <= turmoilBurst {
			t.Errorf("%s: admitted %d, want a burst of %d and more", u.limiters[i], len(admissions), turmoilBurst+1)
			continue
		}
		first, last, lost := admissions[0].sent, int64(0), 0
		for _, a := range admissions {
			first, last = min(first, a.sent), max(last, a.answered)
			if u.isLost(u.limiters[i]) && a.answered > killed-1e6 && a.sent < killed {
				lost++
			}
		}
		most := turmoilBurst + 1 + turmoilRate*float64(last-first)/1e6 + float64(lost)
		if n := float64(len(admissions)); n > most {
			t.Errorf("%s: admitted %v, want no more than %.2f, %d of which may be lost", u.limiters[i], n, most, lost)
		}
	}
}

// TestClusterTurmoil puts load on a cluster, through two cellproxies, while slots
// are moved and a master is killed: no reply is wrong or out of order, limits
// hold over both, and service resumes by itself.
func TestClusterTurmoil(t *testing.T) {
	random := newRand(t)
	nodes := redistest.StartCluster(t, 3, 1)
	proxies := []*proxytest.Proxy{proxytest.Start(t, nodes.URL()), proxytest.Start(t, nodes.URL())}
	u := &turmoil{admissions: make([][]admission, turmoilLimits)}
	for i := range turmoilLimits {
		u.limiters = append(u.limiters, turmoilKey(fmt.Sprint("limiter", i), i))
	}
	errs := make(chan error, 12)
	var work sync.WaitGroup
	var mu sync.Mutex
	for i := range cap(errs) {
		conn := proxies[i%2].Dial(t)
		seed := random.Uint64()
		work.Go(func() {
			if i < 8 {
				errs <- u.exchange(conn, fmt.Sprint("client", i), rand.New(rand.NewPCG(seed, 0)))
			} else {
				errs <- u.attempt(conn, &mu)
			}
		})
	}
	// A test that fails ends its clients too.
	defer work.Wait()
	defer u.over.Store(true)

	u.await(t, "load", func() bool { return u.served.Load() > 1000 })
	if err := nodes.Reshard(nodes.Nodes[0], nodes.Nodes[1], turmoilMoved); err != nil {
		t.Fatal(err)
	}
	before := u.served.Load()
	u.await(t, "load after the slots have moved", func() bool { return u.served.Load() > before+1000 })
	rate, share := u.rate(500 * time.Millisecond)

	u.killed.Store(time.Now().UnixMicro())
	nodes.Nodes[2].Kill()
	successor := nodes.Nodes[5].Client(t)
	u.await(t, "a replica takes over", func() bool {
		return strings.HasPrefix(successor.Info(context.Background(), "replication").Val(), "# Replication\r\nrole:master")
	})
	failedOver := time.Now()
	u.await(t, "load as before on the new master", func() bool {
		// The machine may be busier by now, but equally for all masters.
		rateNow, shareNow := u.rate(200 * time.Millisecond)
		return rateNow > rate/10 && shareNow > share/2
	})
	recovery := time.Since(failedOver)
	if recovery > 5*time.Second {
		t.Errorf("it took %v after the failover until all was as before, want less than 5s", recovery)
	}
	before = u.served.Load()
	u.await(t, "load at the end", func() bool { return u.served.Load() > before+1000 })
	u.over.Store(true)
	work.Wait()
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Errorf("a client: %v", err)
		}
	}
	t.Logf("%d commands; %d may have been run, %d were not; failover after %v, recovery after %v more",
		u.served.Load(), u.unknown.Load(), u.refused.Load(), failedOver.Sub(time.UnixMicro(u.killed.Load())), recovery)
	if len(u.wrong) > 0 {
		t.Error(errors.New(strings.Join(u.wrong, "\n")))
	}
	u.checkLimits(t)
}

func (u *turmoil) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wire.Patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s; %d commands served, %s", what, u.served.Load(), strings.Join(u.wrong, "\n"))
		}
	}
}

// rate returns how many commands are served in a second, by the next while, and
// the share of the killed master's slots in that.
func (u *turmoil) rate(while time.Duration) (rate, share float64) {
	served, ofLost, began := u.served.Load(), u.ofLost.Load(), time.Now()
	time.Sleep(while)
	n := float64(u.served.Load() - served)
	return n / time.Since(began).Seconds(), float64(u.ofLost.Load()-ofLost) / max(n, 1)
}
