package test

import (
	"strings"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestIdleTimeout has clients that do nothing, in all kinds of states, beside
// others that wait for something or are at work. Those are left in peace.
func TestIdleTimeout(t *testing.T) {
	const timeout = 3 * time.Second
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--idle-timeout", timeout.String())
	connect := func(commands ...string) *wire.Conn {
		t.Helper()
		conn := proxy.Dial(t)
		for _, command := range commands {
			conn.Do(strings.Fields(command)...)
		}
		return conn
	}
	waiting := map[string]*wire.Conn{
		"SUBSCRIBE":          connect("SUBSCRIBE c"),
		"SUBSCRIBE of RESP3": connect("HELLO 3", "SUBSCRIBE c"),
		"PSUBSCRIBE":         connect("PSUBSCRIBE c*"),
		"MONITOR":            connect("MONITOR"),
		"BLPOP":              connect("PING"),
		"BLPOP of a wire":    connect("HELLO 3", "CLIENT TRACKING ON"),
		"SSUBSCRIBE":         connect("SSUBSCRIBE c"),
		"XREAD":              connect("PING"),
	}
	waiting["BLPOP"].Send([]string{"BLPOP", "list", "0"})
	waiting["BLPOP of a wire"].Send([]string{"BLPOP", "list", "0"})
	waiting["XREAD"].Send([]string{"XREAD", "BLOCK", "0", "STREAMS", "stream", "$"})
	begin := time.Now()
	idle := map[string]*wire.Conn{
		"new":                  connect(),
		"after PING":           connect("PING"),
		"in MULTI":             connect("MULTI"),
		"after WATCH":          connect("WATCH k"),
		"tracking":             connect("HELLO 3", "CLIENT TRACKING ON"),
		"after BLPOP":          connect("BLPOP nosuch 0.01"),
		"subscribed no more":   connect("SUBSCRIBE c", "RESET"),
		"in half of a command": connect(),
	}
	idle["in half of a command"].Write([]byte("*2\r\n$3\r\nGE"))
	busy := connect("PING")
	ended := make(chan string)
	for name, conn := range idle {
		go func() {
			if rest, err := conn.ReadAll(); err != nil || rest != "" {
				t.Errorf("%s: got %q, %v, want its end", name, rest, err)
			}
			ended <- name
		}()
	}
	for range idle {
		for over := false; !over; {
			select {
			case name := <-ended:
				if lasted := time.Since(begin); lasted < timeout {
					t.Errorf("%s: disconnected after %v", name, lasted)
				}
				over = true
			case <-time.After(10 * time.Millisecond):
				busy.Do("PING")
			}
		}
	}
	for _, command := range []string{
		"PUBLISH c hello", "SPUBLISH c hello", "RPUSH list a b", "XADD stream * f v",
	} {
		busy.Do(strings.Fields(command)...)
	}
	for name, conn := range waiting {
		if _, err := conn.ReadReply(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSubscriberThatDoesNotRead publishes to a client that takes nothing, on
// the other side of an upstream that would let it: cellproxy does not.
func TestSubscriberThatDoesNotRead(t *testing.T) {
	for _, limits := range []string{"1mb 0 0", "0 256kb 1"} {
		for _, protocol := range []string{"2", "3"} {
			t.Run(limits+" RESP"+protocol, func(t *testing.T) {
				redis := redistest.Start(t, redistest.Options{Args: []string{"--client-output-buffer-limit", "pubsub 0 0 0"}})
				proxy := proxytest.Start(t, redis.URL(), "--pubsub-output-limit", limits)
				lazy, eager := proxy.Dial(t), proxy.Dial(t)
				lazy.Do("HELLO", protocol)
				lazy.Do("SUBSCRIBE", "c")
				eager.Do("SUBSCRIBE", "c")
				publisher := proxy.Dial(t)
				message := strings.Repeat("x", 64<<10)
				for deadline := time.Now().Add(wire.Patience); publisher.Do("PUBLISH", "c", message) != ":1\r\n"; {
					if got := eager.Reply(); !strings.Contains(got, message) {
						t.Fatalf("a client that reads got %.100q", got)
					}
					if time.Now().After(deadline) {
						t.Fatal("a client that does not read is still subscribed")
					}
				}
				if got := eager.Reply(); !strings.Contains(got, message) {
					t.Errorf("the other client got %.100q", got)
				}
			})
		}
	}
}

// TestSubscriberThatReadsSlowly sees that being behind for a while is no reason
// to be disconnected.
func TestSubscriberThatReadsSlowly(t *testing.T) {
	const messages = 200
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--pubsub-output-limit", "64mb 256kb 60")
	slow := proxy.Dial(t)
	slow.Do("SUBSCRIBE", "c")
	publisher := proxy.Dial(t)
	message := strings.Repeat("x", 64<<10)
	for range messages {
		if got := publisher.Do("PUBLISH", "c", message); got != ":1\r\n" {
			t.Fatalf("PUBLISH = %q", got)
		}
	}
	for i := range messages {
		if got := slow.Reply(); !strings.Contains(got, message) {
			t.Fatalf("message %d: %.100q", i, got)
		}
	}
}
