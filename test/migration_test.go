package test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// carry copies a key with its TTL to another server, which listens on TCP.
func carry(t *testing.T, from *wire.Conn, to *redistest.Server, key string) {
	t.Helper()
	host, port, _ := strings.Cut(to.Addr(), ":")
	if got := from.Do("MIGRATE", host, port, key, "0", "20000", "COPY", "REPLACE"); got != "+OK\r\n" && got != "+NOKEY\r\n" {
		t.Fatalf("MIGRATE of %q: %q", key, got)
	}
}

// TestMigrationInTheMiddle carries recorded states from the Redis where
// redis-cell has left them to another, behind a cellproxy, and what that leaves
// back again: each must go on as if nothing had happened.
func TestMigrationInTheMiddle(t *testing.T) {
	old := redistest.Start(t, redistest.Options{FakeClock: true, TCP: true})
	fresh := redistest.Start(t, redistest.Options{FakeClock: true, TCP: true})
	atOld, atNew := old.Dial(t), fresh.Dial(t)
	client := proxytest.Start(t, fresh.URL()).Dial(t)
	carried := 0
	for i, sequence := range recordedSequences(t) {
		for j, step := range sequence[:len(sequence)-1] {
			next := sequence[j+1]
			key := step.Args[1]
			if step.Value == nil || next.Args[1] != key {
				continue
			}
			for _, server := range []*redistest.Server{old, fresh} {
				server.SetClock(step.AtMicros * 1000)
			}
			atOld.Do("FLUSHALL")
			atNew.Do("FLUSHALL")
			ttlMillis := (tat(t, step)-step.AtMicros*1000)/1e6 + 1
			atOld.Do("SET", key, *step.Value, "PX", strconv.FormatInt(ttlMillis, 10))
			carry(t, atOld, fresh, key)
			for _, server := range []*redistest.Server{old, fresh} {
				server.SetClock(next.AtMicros * 1000)
			}
			at := fmt.Sprintf("sequence %d step %d: %q on %s", i, j+1, next.Args, *step.Value)
			if got, want := client.Do(next.Args...), integers(next.Reply...); got != want {
				t.Fatalf("%s\n got %q\nwant %q", at, got, want)
			}
			left := atNew.Do("GET", key)
			atOld.Do("DEL", key)
			carry(t, atNew, old, key)
			if got := atOld.Do("GET", key); got != left || !leaves(next, got) {
				t.Fatalf("%s left %q, which came back as %q", at, left, got)
			}
			carried++
			break // one of each sequence is enough
		}
	}
	if carried < 100 {
		t.Errorf("only %d states were carried", carried)
	}
}
