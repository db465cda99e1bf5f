package test

import (
	"regexp"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestScriptThatDoesNotEnd has a client run an endless script among commands of
// others. As with Redis itself, the others are told that it is busy and may end
// the script, and everybody gets the replies to what was sent, in order.
func TestScriptThatDoesNotEnd(t *testing.T) {
	for _, db := range []string{"0", "9"} {
		t.Run("db"+db, func(t *testing.T) {
			redis := redistest.Start(t, redistest.Options{})
			direct := redis.Dial(t)
			direct.Do("CONFIG", "SET", "busy-reply-threshold", "10")
			direct.Do("ACL", "SETUSER", "proxy", "on", ">secret", "~*", "&*", "+@all")
			proxy := proxytest.Start(t, strings.Replace(redis.URL(), "://", "://proxy:secret@", 1))
			runner, stuck, other := proxy.Dial(t), proxy.Dial(t), proxy.Dial(t)
			for _, conn := range []*wire.Conn{runner, stuck, other} {
				conn.Do("SELECT", db)
				conn.Do("EVAL", "return 1", "0")
			}
			fromProxy := regexp.MustCompile(" db=" + db + " .* user=proxy ")
			for range 3 {
				await(t, "a connection for scripts", func() bool {
					return len(fromProxy.FindAllString(direct.Do("CLIENT", "LIST"), -1)) >= 2
				})
				runScriptThatDoesNotEnd(t, direct, runner, stuck, other)
			}
		})
	}
}

func runScriptThatDoesNotEnd(t *testing.T, direct, runner, stuck, other *wire.Conn) {
	t.Helper()
	const value = "$6\r\nbefore\r\n"
	runner.Send([]string{"SET", "k", "before"}, []string{"EVAL", "while true do end", "0"}, []string{"GET", "k"})
	await(t, "the script to run", func() bool { return strings.HasPrefix(direct.Do("PING"), "-BUSY ") })
	stuck.Send([]string{"GET", "k"})
	await(t, "others to be told of it", func() bool {
		got := other.Do("PING")
		if got != "+PONG\r\n" && !strings.HasPrefix(got, "-BUSY ") {
			t.Fatalf("PING = %q", got)
		}
		return got[0] == '-'
	})
	stuck.Send([]string{"GET", "k"})
	if got := other.Do("SCRIPT", "KILL"); got != "+OK\r\n" {
		t.Fatalf("SCRIPT KILL = %q", got)
	}
	replies := runner.Replies(3)
	if replies[0] != "+OK\r\n" || !strings.Contains(replies[1], "Script killed by user") || replies[2] != value {
		t.Errorf("the script's client got %q", replies)
	}
	for i, got := range stuck.Replies(2) {
		if got != value && !strings.HasPrefix(got, "-BUSY ") {
			t.Errorf("reply %d to GET = %q", i, got)
		}
	}
	if got := other.Do("GET", "k"); got != value {
		t.Errorf("GET = %q", got)
	}
}

// TestFirstScriptDoesNotEnd begins with a script that stalls the connection which
// all share.
func TestFirstScriptDoesNotEnd(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	direct := redis.Dial(t)
	direct.Do("CONFIG", "SET", "busy-reply-threshold", "10")
	proxy := proxytest.Start(t, redis.URL())
	runner, other := proxy.Dial(t), proxy.Dial(t)
	runner.Send([]string{"EVAL", "while true do end", "0"})
	await(t, "the script to run", func() bool { return strings.HasPrefix(direct.Do("PING"), "-BUSY ") })
	await(t, "cellproxy to find out", func() bool { return strings.Contains(proxy.Output(), "a script takes long") })
	if got := other.Do("GET", "k"); !strings.HasPrefix(got, "-BUSY ") {
		t.Errorf("GET = %q", got)
	}
	if got := other.Do("SCRIPT", "KILL"); got != "+OK\r\n" {
		t.Fatalf("SCRIPT KILL = %q", got)
	}
	if got := runner.Reply(); !strings.Contains(got, "Script killed by user") {
		t.Errorf("the script = %q", got)
	}
	if got := runner.Do("GET", "k"); got != "$-1\r\n" {
		t.Errorf("GET = %q", got)
	}
}

// TestScriptMayTakeLongerThanTheTimeout has a script keep its connection silent
// while the upstream tells others that it is busy: it is alive.
func TestScriptMayTakeLongerThanTheTimeout(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Dial(t).Do("CONFIG", "SET", "busy-reply-threshold", "10")
	conn := proxytest.Start(t, redis.URL(), "--upstream-timeout", "300ms").Dial(t)
	for range 2 {
		got := conn.Do("EVAL", `
			local function ms() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
			local start = ms()
			while ms() - start < 1500 do end
			return 7`, "0")
		if got != ":7\r\n" {
			t.Errorf("a slow script = %q", got)
		}
	}
}

// TestFrozenUpstreamIsFoundBehindAScript has the upstream freeze while it owes
// the reply to a script.
func TestFrozenUpstreamIsFoundBehindAScript(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	conn := proxytest.Start(t, redis.URL(), "--upstream-timeout", "300ms").Dial(t)
	redis.Freeze()
	defer redis.Thaw()
	if got := conn.Do("EVAL", "return 1", "0"); !strings.HasPrefix(got, "-ERR upstream connection lost before the reply") {
		t.Errorf("a script on a frozen upstream = %q", got)
	}
}
