package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cellproxy/backend/cluster"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestClusterSessions has what takes a connection of its own: transactions,
// blocking commands, subscriptions.
func TestClusterSessions(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	proxy := proxytest.Start(t, nodes.URL(), "--refuse", "DEBUG")
	for _, test := range clusterDialogues {
		t.Run(test.name, func(t *testing.T) {
			conn, other := proxy.Dial(t), proxy.Dial(t)
			if got := other.Do("FLUSHALL"); got != "+OK\r\n" {
				t.Fatalf("FLUSHALL = %q", got)
			}
			for i, line := range test.dialogue {
				command, want, _ := strings.Cut(line, " -> ")
				who := conn
				if rest, ok := strings.CutPrefix(command, "other: "); ok {
					command, who = rest, other
				}
				got := who.Do(strings.Fields(command)...)
				if plain := strings.TrimSuffix(strings.ReplaceAll(got, "\r\n", " "), " "); !strings.HasPrefix(plain, want) || want == "" {
					t.Fatalf("line %d, %s: %s, want %s", i, command, plain, want)
				}
			}
		})
		if strings.Contains(strings.Join(test.dialogue, "\n"), "other: ") {
			continue // two clients take turns
		}
		t.Run(test.name+", all at once", func(t *testing.T) {
			conn := proxy.Dial(t)
			conn.Do("FLUSHALL")
			var commands [][]string
			var wants []string
			for _, line := range test.dialogue {
				command, want, _ := strings.Cut(line, " -> ")
				commands, wants = append(commands, strings.Fields(command)), append(wants, want)
			}
			conn.Send(commands...)
			for i, want := range wants {
				if plain := strings.TrimSuffix(strings.ReplaceAll(conn.Reply(), "\r\n", " "), " "); !strings.HasPrefix(plain, want) {
					t.Errorf("line %d, %s: %s, want %s", i, commands[i], plain, want)
				}
			}
		})
	}
}

// clusterDialogues are commands and how the replies begin. The keys a, b and c
// are of three nodes.
var clusterDialogues = []struct {
	name     string
	dialogue []string
}{
	{"transaction", []string{
		"MULTI -> +OK", "PING -> +QUEUED", "SET a 1 -> +QUEUED", "INCR a -> +QUEUED", "GET {a}b -> +QUEUED",
		"EXEC -> *4 +PONG +OK :2 $-1", "GET a -> $1 2", "GET b -> $-1",
		"MULTI -> +OK", "SET b 1 -> +QUEUED", "DISCARD -> +OK", "GET b -> $-1",
	}},
	{"transaction without keys", []string{
		"MULTI -> +OK", "EXEC -> *0", "MULTI -> +OK", "PING -> +QUEUED", "ECHO x -> +QUEUED", "EXEC -> *2 +PONG $1 x",
		"MULTI -> +OK", "PING -> +QUEUED", "DISCARD -> +OK", "EXEC -> -ERR EXEC without MULTI", "DISCARD -> -ERR DISCARD without MULTI",
	}},
	{"transaction over slots", []string{
		"MULTI -> +OK", "SET a 1 -> +QUEUED", "SET b 1 -> -CROSSSLOT", "EXEC -> -EXECABORT", "GET a -> $-1",
		"MULTI -> +OK", "SET a 1 -> +QUEUED", "MGET a b -> -CROSSSLOT", "EXEC -> -EXECABORT",
	}},
	{"transaction with mistakes", []string{
		"MULTI -> +OK", "MULTI -> -ERR MULTI calls can not be nested", "WATCH a -> -ERR WATCH inside MULTI is not allowed",
		"SET a 1 -> +QUEUED", "MULTI -> -ERR MULTI calls can not be nested", "EXEC -> *1 +OK",
		"MULTI -> +OK", "SET a -> -ERR wrong number of arguments", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "DBSIZE -> -ERR a command for all nodes", "SET a 5 -> +QUEUED", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "SET a 5 -> +QUEUED", "FLUSHALL -> -ERR a command for all nodes", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "SET a 5 -> +QUEUED", "MONITOR -> -ERR MONITOR is not supported", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "SUBSCRIBE x -> -ERR SUBSCRIBE is not supported", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "HELLO 3 -> -ERR HELLO is not supported", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "SET a 5 -> +QUEUED", "DEBUG x -> -ERR DEBUG is not supported", "EXEC -> -EXECABORT",
		"GET a -> $1 1", "MULTI x -> -ERR wrong number of arguments", "GET a -> $1 1",
	}},
	{"limiters in a transaction", []string{
		"MULTI -> +OK", "CL.THROTTLE a 15 30 60 -> +QUEUED", "CL.THROTTLE a 15 30 60 -> +QUEUED", "INCR {a}n -> +QUEUED",
		"EXEC -> *3 *5 :0 :16 :15 :-1 :2 *5 :0 :16 :14 :-1 :4 :1",
		"MULTI -> +OK", "SET a 1 -> +QUEUED", "CL.THROTTLE a 1 -> -ERR wrong number", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "CL.THROTTLE a 1 -> -ERR wrong number", "EXEC -> -EXECABORT",
		"MULTI -> +OK", "GET {a}n -> +QUEUED", "CL.THROTTLE a x 1 1 -> +QUEUED", "EXEC -> *2 $1 1 -ERR",
	}},
	{"watch", []string{
		"WATCH a -> +OK", "GET a -> $-1", "GET b -> $-1", "other: SET a 1 -> +OK",
		"MULTI -> +OK", "SET a 2 -> +QUEUED", "EXEC -> *-1", "GET a -> $1 1",
		"WATCH a -> +OK", "MULTI -> +OK", "SET a 2 -> +QUEUED", "EXEC -> *1 +OK",
		"WATCH a -> +OK", "other: SET a 1 -> +OK", "UNWATCH -> +OK", "MULTI -> +OK", "SET a 3 -> +QUEUED", "EXEC -> *1 +OK",
		"WATCH a -> +OK", "WATCH b -> -CROSSSLOT", "other: SET a 1 -> +OK", "MULTI -> +OK", "SET b 1 -> -CROSSSLOT", "DISCARD -> +OK",
		"MULTI -> +OK", "SET a 4 -> +QUEUED", "EXEC -> *1 +OK",
		"WATCH a -> +OK", "SELECT 0 -> -ERR SELECT is not supported by cellproxy in a transaction", "UNWATCH -> +OK", "SELECT 0 -> +OK",
	}},
	{"blocking", []string{
		"RPUSH a 1 -> :1", "BLPOP a 1 -> *2 $1 a $1 1", "BLPOP b 0.01 -> *-1", "BLPOP a b 0.01 -> -CROSSSLOT",
		"BLMPOP 0.01 1 c LEFT -> *-1", "XREAD BLOCK 1 STREAMS a 0 -> *-1", "GET b -> $-1",
		"MULTI -> +OK", "BLPOP a 0 -> +QUEUED", "EXEC -> *1 *-1",
	}},
	{"what is not there", []string{
		"MONITOR -> -ERR MONITOR is not supported", "WAIT 0 0 -> -ERR WAIT is not supported", "CLUSTER SLOTS -> -ERR This instance has cluster support disabled",
		"CLIENT TRACKING ON -> -ERR CLIENT TRACKING is not supported", "SELECT 1 -> -ERR SELECT is not allowed in cluster mode", "GET a -> $-1",
	}},
}

func TestClusterDialoguesAreOverNodes(t *testing.T) {
	of := func(key string) int { return cluster.Slot([]byte(key)) * 3 / cluster.Slots }
	if a, b, c := of("a"), of("b"), of("c"); a == b || b == c || a == c {
		t.Errorf("a, b and c are of the nodes %d, %d and %d", a, b, c)
	}
}

// TestClusterBlocking sees that a command behind one that blocks waits for it,
// and that a client who leaves while it waits takes nothing with it.
func TestClusterBlocking(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	proxy := proxytest.Start(t, nodes.URL())
	conn, other := proxy.Dial(t), proxy.Dial(t)
	conn.Send([]string{"BLPOP", "a", "0"}, []string{"GET", "b"}, []string{"BLPOP", "c", "0"}, []string{"PING"})
	blocked := func() int {
		n := 0
		for _, node := range nodes.Nodes {
			var here int
			_, text, _ := strings.Cut(node.Client(t).Info(t.Context(), "clients").Val(), "blocked_clients:")
			fmt.Sscan(text, &here)
			n += here
		}
		return n
	}
	awaitBlocked := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(wire.Patience); blocked() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d clients are blocked, want %d", blocked(), want)
			}
		}
	}
	awaitBlocked(1)
	other.Send([]string{"SET", "b", "1"}, []string{"RPUSH", "a", "x"})
	got := append(other.Replies(2), conn.Replies(2)...)
	awaitBlocked(1)
	other.Do("RPUSH", "c", "y")
	got = append(got, conn.Replies(2)...)
	want := []string{"+OK\r\n", ":1\r\n", "*2\r\n$1\r\na\r\n$1\r\nx\r\n", "$1\r\n1\r\n", "*2\r\n$1\r\nc\r\n$1\r\ny\r\n", "+PONG\r\n"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	conn.Send([]string{"BLPOP", "a", "0"})
	awaitBlocked(1)
	conn.Close()
	awaitBlocked(0)
	if got := other.Do("RPUSH", "a", "x") + other.Do("LLEN", "a"); got != ":1\r\n:1\r\n" {
		t.Errorf("after a blocked client has left: %q", got)
	}
}

// TestClusterSubscriptions publishes at every node.
func TestClusterSubscriptions(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	proxy := proxytest.Start(t, nodes.URL())
	for _, protocol := range []string{"2", "3"} {
		conn, publisher := proxy.Dial(t), proxy.Dial(t)
		conn.Do("HELLO", protocol)
		mark := map[string]string{"2": "*", "3": ">"}[protocol]
		for i, channel := range []string{"a", "b", "c"} {
			if got, want := conn.Do("SUBSCRIBE", channel), fmt.Sprintf("%s3\r\n$9\r\nsubscribe\r\n$1\r\n%s\r\n:%d\r\n", mark, channel, i+1); got != want {
				t.Errorf("SUBSCRIBE %s = %q, want %q", channel, got, want)
			}
		}
		for _, channel := range []string{"a", "b", "c"} {
			if got := publisher.Do("PUBLISH", channel, "m"); got != ":1\r\n" {
				t.Errorf("PUBLISH %s = %q", channel, got)
			}
			message := fmt.Sprintf("%s3\r\n$7\r\nmessage\r\n$1\r\n%s\r\n$1\r\nm\r\n", mark, channel)
			if got := conn.Reply(); got != message {
				t.Errorf("message: %q, want %q", got, message)
			}
			for _, node := range nodes.Nodes {
				node.Dial(t).Do("PUBLISH", channel, "m")
				if got := conn.Reply(); got != message {
					t.Errorf("message from another node: %q, want %q", got, message)
				}
			}
		}
		if got := publisher.Do("PUBSUB", "NUMSUB", "a", "x"); got != "*4\r\n$1\r\na\r\n:1\r\n$1\r\nx\r\n:0\r\n" {
			t.Errorf("PUBSUB NUMSUB = %q", got)
		}
		if got := conn.Do("GET", "b"); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("GET on a connection with subscriptions = %q", got)
		}
		conn.Send([]string{"UNSUBSCRIBE"}, []string{"ECHO", "over"})
		for reply := ""; reply != "$4\r\nover\r\n"; reply = conn.Reply() {
		}
		if got := conn.Do("GET", "b") + conn.Do("GET", "c") + conn.Do("SUBSCRIBE", "d"); got !=
			map[string]string{"2": "$-1\r\n$-1\r\n", "3": "_\r\n_\r\n"}[protocol]+mark+"3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:1\r\n" {
			t.Errorf("after UNSUBSCRIBE: %q", got)
		}
		if got := conn.Do("RESET") + conn.Do("GET", "b"); got != "+RESET\r\n$-1\r\n" {
			t.Errorf("after RESET: %q", got)
		}
	}
	conn, publisher := proxy.Dial(t), proxy.Dial(t)
	for i, channel := range []string{"{b}1", "{b}2"} {
		if got, want := conn.Do("SSUBSCRIBE", channel), fmt.Sprintf("*3\r\n$10\r\nssubscribe\r\n$4\r\n%s\r\n:%d\r\n", channel, i+1); got != want {
			t.Errorf("SSUBSCRIBE = %q, want %q", got, want)
		}
		if got := publisher.Do("SPUBLISH", channel, "m"); got != ":1\r\n" {
			t.Errorf("SPUBLISH = %q", got)
		}
		if got, want := conn.Reply(), fmt.Sprintf("*3\r\n$8\r\nsmessage\r\n$4\r\n%s\r\n$1\r\nm\r\n", channel); got != want {
			t.Errorf("message: %q, want %q", got, want)
		}
	}
	if got := conn.Do("SSUBSCRIBE", "a"); !strings.HasPrefix(got, "-ERR ") {
		t.Errorf("SSUBSCRIBE at another node = %q", got)
	}
}
