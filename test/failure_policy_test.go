package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestFailurePolicies has everything happen to the upstream under each policy,
// and looks at what limiter commands and others are answered before, meanwhile
// and afterwards.
func TestFailurePolicies(t *testing.T) {
	const patience = 3 * time.Second // to answer anything, a timeout of 1 s included
	for _, policy := range []string{"error", "allow", "deny", "local"} {
		t.Run(policy, func(t *testing.T) {
			redis := redistest.Start(t, redistest.Options{Args: disasterArgs})
			proxy := proxytest.Start(t, redis.URL(), "--on-upstream-failure", policy, "--upstream-timeout", "1s")
			for i, d := range disasters {
				conn := proxy.Dial(t)
				throttle := []string{"CL.THROTTLE", fmt.Sprint("key", i), "1", "1", "3600"}
				awaitServed(t, conn)
				if got := conn.Do(throttle...); got != integers(0, 2, 1, -1, 3600) {
					t.Fatalf("before being %s: %q", d.name, got)
				}
				d.begin(t, redis)
				if d.refuses != "" {
					began := time.Now()
					checkMeanwhile(t, conn, policy, d, throttle)
					if took := time.Since(began); took > patience {
						t.Errorf("%s: the answers took %v", d.name, took)
					}
				}
				d.end(t, redis)
				awaitServed(t, conn)
				want := "*5\r\n:0\r\n:2\r\n:0\r\n" // one of two was taken before
				switch d.name {
				case "killed", "restarted", "emptied":
					want = "*5\r\n:0\r\n:2\r\n:1\r\n"
				case "frozen": // what was on the way to it has been run since
					want = "*5\r\n:1\r\n:2\r\n:0\r\n"
				}
				if got := conn.Do(throttle...); !strings.HasPrefix(got, want) {
					t.Errorf("after being %s: %q, want %q: the state is not the upstream's", d.name, got, want)
				}
			}
		})
	}
}

// checkMeanwhile takes two units, twice, while the upstream can't answer.
func checkMeanwhile(t *testing.T, conn *wire.Conn, policy string, d disaster, throttle []string) {
	t.Helper()
	want := map[string][]string{
		"error": {d.refuses, d.refuses, d.refuses},
		"allow": {"*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n"},
		"deny":  {"*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:1\r\n", "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:1\r\n", "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:1\r\n"},
		"local": {"*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n", "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n", "*5\r\n:1\r\n:2\r\n:0\r\n:3"},
	}[policy]
	conn.Send(throttle, throttle, throttle, []string{"SET", "k", "v"}, []string{"CL.THROTTLE", "k", "x", "1", "1"})
	for i := range want {
		if got := conn.Reply(); !strings.HasPrefix(got, want[i]) {
			t.Errorf("%s, limiter command %d: %q, want %q", d.name, i, got, want[i])
		}
	}
	if got := conn.Reply(); !strings.HasPrefix(got, d.refuses) {
		t.Errorf("%s: SET = %q, want %q", d.name, got, d.refuses)
	}
	if got, want := conn.Reply(), "-ERR value is not an integer or out of range\r\n"; got != want {
		t.Errorf("%s: a wrong limiter command = %q, want %q", d.name, got, want)
	}
}

// awaitServed waits until the upstream takes writes and answers limiters again.
func awaitServed(t *testing.T, conn *wire.Conn) {
	t.Helper()
	await(t, "the upstream to serve again", func() bool { return conn.Do("SET", "served", "1") == "+OK\r\n" })
}

// TestFailuresAreSaidOnce counts the log lines of an upstream that goes and
// comes back while many commands fail.
func TestFailuresAreSaidOnce(t *testing.T) {
	const rounds = 3
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	conn := proxy.Dial(t)
	for range rounds {
		awaitServed(t, conn)
		redis.Kill()
		for range 50 {
			if got := conn.Do("GET", "k"); !strings.HasPrefix(got, "-ERR upstream ") {
				t.Fatalf("GET = %q", got)
			}
		}
		redis.Restart()
	}
	awaitServed(t, conn)
	for _, line := range []string{`"upstream is down"`, `"upstream is back"`} {
		if got := strings.Count(proxy.Output(), line); got != rounds {
			t.Errorf("%s was logged %d times, want %d", line, got, rounds)
		}
	}
}

// TestFrozenTransactionIsGivenUp freezes the upstream under a client that has a
// connection of its own, and under one that blocks there.
func TestFrozenTransactionIsGivenUp(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--upstream-timeout", "200ms")
	multi, blocked := proxy.Dial(t), proxy.Dial(t)
	multi.Do("MULTI")
	blocked.Send([]string{"BLPOP", "list", "0"})
	direct := redis.Dial(t)
	await(t, "BLPOP to block", func() bool { return strings.Contains(direct.Do("INFO", "clients"), "blocked_clients:1") })
	redis.Freeze()
	if got := multi.Do("GET", "k"); !strings.HasPrefix(got, "-ERR upstream connection lost") {
		t.Errorf("in a transaction: %q", got)
	}
	if rest, err := multi.ReadAll(); rest != "" || err != nil {
		t.Errorf("the transaction went on: %q, %v", rest, err)
	}
	redis.Thaw()
	direct.Do("RPUSH", "list", "v")
	if got, want := blocked.Reply(), "*2\r\n"+bulk("list")+bulk("v"); got != want {
		t.Errorf("BLPOP = %q, want %q", got, want)
	}
}
