package test

import (
	"fmt"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// TestBatchedLimiters sees that limiter commands that go upstream together are
// answered as if each had gone alone: when the upstream has lost the scripts and
// when a key holds something else; with other commands in between, on keys of
// any length.
func TestBatchedLimiters(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	direct := redis.Dial(t)
	conn := proxytest.Start(t, redis.URL()).Dial(t)
	admitted := integers(0, 16, 15, -1, 2)
	const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	for _, disturb := range []string{"", "SCRIPT FLUSH", "", "SCRIPT FLUSH ASYNC"} {
		direct.Do("FLUSHALL")
		direct.Do("RPUSH", "alist", "x")
		direct.Do("SET", "astring", "x")
		if disturb != "" {
			direct.Do(strings.Fields(disturb)...)
		}
		var commands [][]string
		var want []string
		add := func(reply string, words ...string) {
			commands, want = append(commands, words), append(want, reply)
		}
		throttle := func(reply, key string) { add(reply, "CL.THROTTLE", key, "15", "30", "60") }
		for i := range 100 {
			throttle(admitted, fmt.Sprint("a", i))
			switch i % 7 {
			case 2:
				throttle(wrongType, "alist")
			case 3:
				throttle("-ERR value is not a state of CL.THROTTLE\r\n", "astring")
			case 4:
				if disturb != "" {
					break // runs that are made up for come later than what was sent behind them
				}
				add(":1\r\n", "DEL", fmt.Sprint("a", i))
				throttle(admitted, fmt.Sprint("a", i))
			case 5:
				add(integers(0, 10, 9, -1, 200), "TB.ACQUIRE", fmt.Sprint("atb", i), "10", "5", "1000")
			case 6:
				throttle(admitted, fmt.Sprint("a", i, strings.Repeat("x", i*1000)))
			}
		}
		conn.Send(commands...)
		for i, got := range conn.Replies(len(commands)) {
			if !strings.HasPrefix(got, want[i]) {
				t.Fatalf("%s: %.100q: got %q, want %q", disturb, commands[i], got, want[i])
			}
		}
	}
	runs := direct.Do("INFO", "commandstats")
	_, stat, _ := strings.Cut(runs, "cmdstat_evalsha:calls=")
	var calls int
	if fmt.Sscanf(stat, "%d", &calls); calls == 0 || calls > 4*130/2 {
		t.Errorf("%d EVALSHA for more than 500 limiter commands", calls)
	}
}

// TestLimitersOfRestrictedUsers sees that a key which the user may not use is
// nobody else's affair: neither if it is a client's user nor the proxy's own.
func TestLimitersOfRestrictedUsers(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Dial(t).Do("ACL", "SETUSER", "alice", "on", ">secret", "+@all", "~a*")
	own := strings.Replace(redis.URL(), "unix://", "unix://alice:secret@", 1)
	for name, url := range map[string]string{"client": redis.URL(), "proxy": own} {
		t.Run(name, func(t *testing.T) {
			conn := proxytest.Start(t, url).Dial(t)
			if got := conn.Do("AUTH", "alice", "secret"); got != "+OK\r\n" {
				t.Fatalf("AUTH = %q", got)
			}
			for round := range 3 {
				var commands [][]string
				for i := range 30 {
					commands = append(commands, []string{"CL.THROTTLE", fmt.Sprint([]string{"a", "b"}[i%10/9], name, round, i), "15", "30", "60"})
				}
				conn.Send(commands...)
				for i, got := range conn.Replies(len(commands)) {
					want := integers(0, 16, 15, -1, 2)
					if commands[i][1][0] == 'b' {
						want = "-NOPERM "
					}
					if !strings.HasPrefix(got, want) {
						t.Errorf("%q: got %q, want %q", commands[i], got, want)
					}
				}
			}
		})
	}
}
