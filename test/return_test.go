package test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// connections returns what the upstream says of its clients, but for the one that
// asks.
func connections(admin *wire.Conn) (lines []string) {
	_, list, _ := strings.Cut(admin.Do("CLIENT", "LIST"), "\r\n")
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "id=") && !strings.Contains(line, " cmd=client|list ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// awaitConnections waits until the upstream has no more than most connections.
func awaitConnections(t *testing.T, admin *wire.Conn, most int) {
	t.Helper()
	for deadline := time.Now().Add(wire.Patience); len(connections(admin)) > most; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the upstream has %d connections, want %d at most:\n%s", len(connections(admin)), most,
				strings.Join(connections(admin), "\n"))
		}
	}
}

// TestSessionsShareAgain has many clients that each need a connection of their
// own for a while.
func TestSessionsShareAgain(t *testing.T) {
	const clients = 80    // of each kind; more than there are kept for the next
	const spared = 64 + 6 // kept, made in advance, and shared
	for _, test := range []struct{ name, begin, end string }{
		{"UNSUBSCRIBE", "SUBSCRIBE a b", "UNSUBSCRIBE a|UNSUBSCRIBE b"},
		{"UNSUBSCRIBE all", "SUBSCRIBE a", "UNSUBSCRIBE"},
		{"UNSUBSCRIBE of RESP3", "HELLO 3|SUBSCRIBE a", "GET k|UNSUBSCRIBE a|GET k"},
		{"PUNSUBSCRIBE", "SUBSCRIBE a|PSUBSCRIBE a*", "UNSUBSCRIBE a|PUNSUBSCRIBE"},
		{"SUNSUBSCRIBE", "SSUBSCRIBE a", "SUNSUBSCRIBE a"},
		{"nothing to unsubscribe from", "PUNSUBSCRIBE nosuch", ""},
		{"TRACKING OFF", "HELLO 3|CLIENT TRACKING ON|GET k", "CLIENT TRACKING OFF"},
		{"NO-EVICT OFF", "CLIENT NO-EVICT ON", "CLIENT NO-EVICT OFF"},
		{"UNWATCH", "WATCH k", "UNWATCH"},
		{"EXEC", "WATCH k|MULTI|GET k", "EXEC"},
		{"DISCARD", "MULTI", "DISCARD"},
		{"EXEC with SELECT", "MULTI|SELECT 1|CLIENT SETNAME joe", "EXEC"},
		{"half a HELLO", "HELLO 3 SETNAME joe NOSUCH", ""},
		{"BLPOP", "BLPOP nosuch 0.001", ""},
		{"RESET", "SUBSCRIBE a|PSUBSCRIBE b", "RESET"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, redistest.Options{})
			proxy := proxytest.Start(t, redis.URL())
			admin := redis.Dial(t)
			var conns []*wire.Conn
			for range clients {
				conn := proxy.Dial(t)
				conns = append(conns, conn)
				for _, command := range strings.Split(test.begin, "|") {
					conn.Send(strings.Fields(command))
				}
				for _, command := range strings.Split(test.end, "|") {
					if command != "" {
						conn.Send(strings.Fields(command))
					}
				}
			}
			for _, conn := range conns {
				conn.Send([]string{"ECHO", "over"})
				for reply := ""; !strings.HasSuffix(reply, "over\r\n"); {
					reply = conn.Reply()
				}
			}
			awaitConnections(t, admin, spared)
			if got := conns[0].Do("CLIENT", "GETNAME"); strings.Contains(test.begin, "joe") != strings.Contains(got, "joe") {
				t.Errorf("CLIENT GETNAME = %q", got)
			}
			if got := conns[0].Do("CL.THROTTLE", "limit", "15", "30", "60"); got != integers(0, 16, 15, -1, 2) {
				t.Errorf("CL.THROTTLE = %q", got)
			}
		})
	}
}

// TestMessagesBeforeTheEnd has others publish while clients subscribe and
// unsubscribe, share the stream again and ask for other things: each message
// comes once, in its place, and none with what the proxy itself has asked.
func TestMessagesBeforeTheEnd(t *testing.T) {
	const rounds = 100
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	for _, protocol := range []string{"2", "3"} {
		conn, publisher := proxy.Dial(t), redis.Dial(t)
		conn.Do("HELLO", protocol)
		for round := range rounds {
			conn.Do("SUBSCRIBE", "c")
			want := fmt.Sprintf("$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%d\r\n", len(strconv.Itoa(round)), round)
			publisher.Do("PUBLISH", "c", strconv.Itoa(round))
			conn.Send([]string{"UNSUBSCRIBE", "c"}, []string{"ECHO", "a"}, []string{"ECHO", "b"})
			publisher.Do("PUBLISH", "c", "too late, perhaps")
			if got := conn.Reply(); !strings.HasSuffix(got, want) {
				t.Fatalf("round %d: got %q, want %q", round, got, want)
			}
			got := conn.Reply()
			if strings.Contains(got, "too late") {
				got = conn.Reply()
			}
			if !strings.Contains(got, "unsubscribe\r\n$1\r\nc\r\n:0\r\n") {
				t.Fatalf("round %d: UNSUBSCRIBE = %q", round, got)
			}
			if got := conn.Reply() + conn.Reply(); got != "$1\r\na\r\n$1\r\nb\r\n" {
				t.Fatalf("round %d: got %q", round, got)
			}
		}
	}
}

// plainConnection matches what the upstream says of a connection without any
// state: no flag but U for a unix socket, no subscription, no transaction.
var plainConnection = regexp.MustCompile(` flags=[NU] db=\d sub=0 psub=0 ssub=0 multi=-1 .* redir=-1 resp=[23]$`)

// TestNoConnectionIsReturnedDirty plays random sessions that end anywhere, looks at
// the connections that are left for others, and has others use them.
func TestNoConnectionIsReturnedDirty(t *testing.T) {
	const sessions, length = 300, 12
	rng := newRand(t)
	redis := redistest.Start(t, redistest.Options{Args: []string{"--hz", "500"}})
	proxy := proxytest.Start(t, redis.URL())
	admin := redis.Dial(t)
	for session := range sessions {
		conn := proxy.Dial(t)
		for range 1 + rng.IntN(length) {
			conn.Write(wire.Encode(strings.Fields(sessionWords[rng.IntN(len(sessionWords))])))
		}
		for range rng.IntN(10) { // some get further than others
			admin.Do("PING")
		}
		conn.Close()
		if session%5 == 0 {
			awaitPlain(t, admin)
		}
	}
	awaitPlain(t, admin)
	for protocol := 2; protocol <= 3; protocol++ {
		for db := range 3 {
			useAll(t, proxy, protocol, db)
		}
	}
}

// awaitPlain waits until the upstream has only connections without any state.
func awaitPlain(t *testing.T, admin *wire.Conn) {
	t.Helper()
	for deadline := time.Now().Add(wire.Patience); ; time.Sleep(time.Millisecond) {
		for db := range 3 {
			admin.Send([]string{"SELECT", strconv.Itoa(db)}, []string{"SET", "k", "1"}, []string{"SET", "k2", "1"})
			admin.Replies(3) // whoever watches these has a flag now
		}
		var dirty []string
		for _, line := range connections(admin) {
			if !plainConnection.MatchString(line) {
				dirty = append(dirty, line)
			}
		}
		if len(dirty) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left for others:\n%s", strings.Join(dirty, "\n"))
		}
	}
}

// useAll has so many sessions in a transaction that no idle connection is left,
// and sees that each is as a new one.
func useAll(t *testing.T, proxy *proxytest.Proxy, protocol, db int) {
	t.Helper()
	want := regexp.MustCompile(fmt.Sprintf(` name= .* flags=[xU]+ db=%d sub=0 psub=0 ssub=0 multi=1 .* user=default redir=-1 resp=%d\n`, db, protocol))
	var conns []*wire.Conn
	for range 64 + 1 {
		conn := proxy.Dial(t)
		conn.Send([]string{"HELLO", strconv.Itoa(protocol)}, []string{"SELECT", strconv.Itoa(db)}, []string{"MULTI"}, []string{"CLIENT", "INFO"})
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Replies(4)
	}
	for _, conn := range conns {
		if got := conn.Do("EXEC"); !want.MatchString(got) {
			t.Fatalf("RESP%d, database %d: CLIENT INFO = %q, want %s", protocol, db, got, want)
		}
		conn.Close()
	}
}
