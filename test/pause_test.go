package test

import (
	"strings"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// TestClientPause pauses all writes for longer than the upstream may be silent:
// whoever reads is served as ever, and who writes is served in the end.
func TestClientPause(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--upstream-timeout", "300ms")
	admin, reader, writer, limited := proxy.Dial(t), proxy.Dial(t), proxy.Dial(t), proxy.Dial(t)
	for round := range 2 {
		if got := admin.Do("CLIENT", "PAUSE", "100000", "WRITE"); got != "+OK\r\n" {
			t.Fatalf("CLIENT PAUSE = %q", got)
		}
		writer.Send([]string{"GET", "k"}, []string{"INCR", "k"}, []string{"GET", "k"})
		limited.Send([]string{"CL.THROTTLE", "limited", "15", "30", "60"})
		before := [2]string{"$-1\r\n", "$1\r\n1\r\n"}[round]
		if got := writer.Reply(); got != before {
			t.Errorf("GET before a write = %q, want %q", got, before)
		}
		await(t, "two clients to wait", func() bool {
			return strings.Contains(reader.Do("INFO", "clients"), "\r\nblocked_clients:2\r\n")
		})
		for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if got := reader.Do("GET", "k"); got != before {
				t.Fatalf("GET = %q, want %q", got, before)
			}
		}
		if got := admin.Do("CLIENT", "UNPAUSE"); got != "+OK\r\n" {
			t.Fatalf("CLIENT UNPAUSE = %q", got)
		}
		after := [2]string{":1\r\n$1\r\n1\r\n", ":2\r\n$1\r\n2\r\n"}[round]
		if got := strings.Join(writer.Replies(2), ""); got != after {
			t.Errorf("after the pause: %q, want %q", got, after)
		}
		want := [2]string{"*5\r\n:0\r\n:16\r\n:15\r\n", "*5\r\n:0\r\n:16\r\n:14\r\n"}[round]
		if got := limited.Reply(); !strings.HasPrefix(got, want) {
			t.Errorf("CL.THROTTLE = %q, want %q", got, want)
		}
	}
	if got := proxy.Output(); strings.Contains(got, "level=WARN") {
		t.Errorf("it was not silent: %s", got)
	}
}

func TestClientPauseMayBeWrong(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	direct, proxied := redis.Dial(t), proxytest.Start(t, redis.URL()).Dial(t)
	for _, args := range []string{
		"PAUSE", "PAUSE x", "PAUSE -1", "PAUSE 1 SOME", "PAUSE 1 WRITE x", "UNPAUSE x", "PAUSE 9223372036854775807",
		"UNPAUSE", "PAUSE 1", "PAUSE 0 WRITE", "unpause",
	} {
		command := append([]string{"CLIENT"}, strings.Fields(args)...)
		if got, want := proxied.Do(command...), direct.Do(command...); got != want {
			t.Errorf("%q = %q, want %q", command, got, want)
		}
		if got := proxied.Do("GET", "k"); got != "$-1\r\n" {
			t.Errorf("GET after %q = %q", command, got)
		}
	}
}

// TestClientPauseInATransaction has a pause begin where cellproxy can't see it:
// who asked for it can end it.
func TestClientPauseInATransaction(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--upstream-timeout", "30s")
	admin, writer := proxy.Dial(t), proxy.Dial(t)
	writer.Do("PING")
	admin.Do("MULTI")
	admin.Do("CLIENT", "PAUSE", "60000", "WRITE")
	if got := admin.Do("EXEC"); got != "*1\r\n+OK\r\n" {
		t.Fatalf("EXEC = %q", got)
	}
	writer.Send([]string{"INCR", "k"})
	await(t, "a client to wait", func() bool {
		return strings.Contains(admin.Do("INFO", "clients"), "\r\nblocked_clients:1\r\n")
	})
	if got := admin.Do("CLIENT", "UNPAUSE"); got != "+OK\r\n" {
		t.Fatalf("CLIENT UNPAUSE = %q", got)
	}
	if got := writer.Reply(); got != ":1\r\n" {
		t.Errorf("INCR = %q", got)
	}
}
