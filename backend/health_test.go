package backend

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestFrozenUpstream has the upstream take everything and answer nothing for a
// while: after the first to notice nobody waits any more, and when it answers
// again all is well.
func TestFrozenUpstream(t *testing.T) {
	const timeout = 50 * time.Millisecond
	var frozen atomic.Bool
	upstream := newFakeUpstream(t, func([]string) string {
		if frozen.Load() {
			return "wait"
		}
		return "+OK\r\n"
	})
	b := newTestBackend(t, "redis://:password@"+upstream.Addr().String(), timeout)
	stream := b.Acquire(b.Default())
	sink := newRecorder()
	submit := func() error { return stream.Submit(sink, []Request{request("PING")}, nil, new(Place)) }
	if err := submit(); err != nil {
		t.Fatal(err)
	}
	sink.waitReplies(t, 1)
	frozen.Store(true)
	if err := submit(); err != nil {
		t.Fatal(err)
	}
	if got := sink.waitReplies(t, 2)[1]; !strings.HasPrefix(got, "-ERR upstream connection lost") {
		t.Errorf("the command under way was answered %q", got)
	}
	awaitTrue(t, "the upstream to be found dead", func() bool { return b.Down() != nil })
	if err := submit(); err == nil {
		t.Error("a command was sent to a dead upstream")
	}
	if _, err := b.Private(context.Background(), b.Default(), sink); err == nil {
		t.Error("a connection was made to a dead upstream")
	}
	frozen.Store(false)
	awaitTrue(t, "the upstream to be found alive", func() bool { return b.Down() == nil })
	if err := submit(); err != nil {
		t.Error(err)
	}
	if got := sink.waitReplies(t, 3)[2]; got != "+OK\r\n" {
		t.Errorf("afterwards: %q", got)
	}
	if got := b.Failures(); got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
}

// TestBlockingCommandMayBeSilent sends a command that blocks on a connection
// of its own, and one that does not.
func TestBlockingCommandMayBeSilent(t *testing.T) {
	const timeout = 50 * time.Millisecond
	upstream := newFakeUpstream(t, func([]string) string { return "wait" })
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), timeout)
	for _, blocks := range []bool{true, false} {
		sink := newRecorder()
		private, err := b.Private(context.Background(), b.Default(), sink)
		if err != nil {
			t.Fatal(err)
		}
		r := request("BLPOP", "k", "0")
		r.Blocks = blocks
		if err := private.Submit([]Request{r}); err != nil {
			t.Fatal(err)
		}
		if blocks {
			time.Sleep(4 * timeout) // a watchdog that did not know would bark by then
			if private.link.failed() {
				t.Error("a blocking command was given up")
			}
			private.Discard()
			continue
		}
		sink.wait(t, "the connection to be given up", func() bool { return sink.lost != nil })
	}
}

func TestRefusalIsNoFailure(t *testing.T) {
	upstream := newFakeUpstream(t, func([]string) string { return "-WRONGPASS invalid password\r\n" })
	b := newTestBackend(t, "redis://user:wrong@"+upstream.Addr().String(), 0)
	if err := b.Check(); err == nil {
		t.Fatal("connected with a wrong password")
	}
	if err := b.Down(); err != nil {
		t.Errorf("down: %v", err)
	}
}

func awaitTrue(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
