package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/backend/cluster"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestClusterIsOneRedis sends random pipelines over all slots to a cellproxy in
// front of a cluster and to one Redis: the replies are the same.
func TestClusterIsOneRedis(t *testing.T) {
	random := newRand(t)
	nodes := redistest.StartCluster(t, 3, 0)
	through := proxytest.Start(t, nodes.URL()).Dial(t)
	directly := redistest.Start(t, redistest.Options{}).Dial(t)
	long := strings.Repeat("x", 100_000)
	key := func() string { return fmt.Sprint("key", random.IntN(50)) }
	for range 50 {
		var pipeline [][]string
		for range 1 + random.IntN(300) {
			k := key()
			pipeline = append(pipeline, [][]string{
				{"SET", k, fmt.Sprint(random.IntN(1000))}, {"GET", k}, {"GET", k}, {"INCR", k}, {"INCR", k}, {"APPEND", k, "1"},
				{"DEL", k}, {"RPUSH", "list:" + k, k, "b"}, {"LRANGE", "list:" + k, "0", "-1"}, {"LPOP", "list:" + k},
				{"LPUSH", k, "1"}, {"SET", "long:" + k, long}, {"GET", "long:" + k}, {"PING", k}, {"ECHO", k}, {"nosuch", k}, {"GET"},
				{"EVAL", "return {KEYS[1], redis.call('get', KEYS[1])}", "1", "{" + k + "}"}, {"OBJECT", "ENCODING", "list:" + k},
				{"LMOVE", "list:{" + k + "}", "{" + k + "}:other", "LEFT", "RIGHT"}, {"TYPE", k},
				{"XADD", "stream:" + k, "1-1", "f", "v"}, {"XREAD", "COUNT", "1", "STREAMS", "stream:" + k, "0"},
				{"MSET", k, "1", key(), "2", key(), "3"}, {"MGET", k, key(), "list:" + k, key(), k}, {"MSET", k}, {"MGET"},
				{"DEL", k, key(), "list:" + key()}, {"UNLINK", k, key()}, {"EXISTS", k, key(), k}, {"TOUCH", k, key(), key()},
				{"DBSIZE"}, {"SCRIPT", "LOAD", "return 1"}, {"SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"},
				{"EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", k}, {"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"KEYS", k},
				{"PUBLISH", k, "m"}, {"SCAN", "x"}, {"SCAN"}, {"KEYS"}, {"CONFIG", "SET", "maxmemory-samples", "5"},
			}[random.IntN(43)])
		}
		if random.IntN(4) == 0 {
			pipeline = append(pipeline, []string{"CLIENT", "REPLY", "SKIP"}, []string{"INCR", key()},
				[]string{"CLIENT", "REPLY", "OFF"}, []string{"INCR", key()}, []string{"CLIENT", "REPLY", "ON"})
		}
		sent := make(chan error, 2)
		for _, conn := range []*wire.Conn{through, directly} {
			go func() {
				_, err := conn.Write(wire.Encode(pipeline...))
				sent <- err
			}()
		}
		skipped := 0
		for i, command := range pipeline {
			if slices.Equal(command, []string{"CLIENT", "REPLY", "SKIP"}) {
				skipped = 4 // and only ON is answered
			}
			if skipped > 0 && command[len(command)-1] != "ON" {
				continue
			}
			if got, want := through.Reply(), directly.Reply(); got != want {
				t.Fatalf("reply %d, to %.60q: %.200q, want %.200q", i, command, got, want)
			}
		}
		for range 2 {
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestClusterKeyspace looks at all keys of a cluster, as if they were in one
// place.
func TestClusterKeyspace(t *testing.T) {
	ctx := context.Background()
	nodes := redistest.StartCluster(t, 3, 0)
	proxy := proxytest.Start(t, nodes.URL())
	client := proxy.Client(t, 2)
	const count = 1000
	want := make([]string, count)
	for i := range want {
		want[i] = fmt.Sprintf("key%03d", i)
		if err := client.Set(ctx, want[i], i, time.Duration(i%2)*time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	keys := client.Keys(ctx, "*").Val()
	slices.Sort(keys)
	if !slices.Equal(keys, want) {
		t.Errorf("KEYS has %d keys, want %d", len(keys), count)
	}
	var scanned []string
	for scan := client.Scan(ctx, 0, "key*", 17).Iterator(); scan.Next(ctx); {
		scanned = append(scanned, scan.Val())
	}
	slices.Sort(scanned)
	if scanned = slices.Compact(scanned); !slices.Equal(scanned, want) {
		t.Errorf("SCAN has %d keys, want %d", len(scanned), count)
	}
	if key := client.RandomKey(ctx).Val(); !slices.Contains(want, key) {
		t.Errorf("RANDOMKEY = %q", key)
	}
	for _, protocol := range []int{2, 3} {
		info := proxy.Client(t, protocol).Info(ctx, "keyspace").Val()
		if want := fmt.Sprintf("db0:keys=%d,expires=%d,", count, count/2); !strings.Contains(info, want) || strings.Count(info, "db0") != 1 {
			t.Errorf("INFO keyspace with protocol %d = %q, want %s…", protocol, info, want)
		}
	}
	conn := proxy.Dial(t)
	var cursor int
	fmt.Sscanf(strings.SplitN(conn.Do("SCAN", "0"), "\r\n", 3)[2], "%d", &cursor)
	if cursor == 0 {
		t.Fatal("a SCAN ends before it began")
	}
	slot := cluster.Slots - 1
	nodes.MoveSlot(slot, nodes.Nodes[2], nodes.Nodes[0], func(string) {})
	if err := client.Get(ctx, slotKey(slot)).Err(); err != redis.Nil { // has the proxy see that the slot has moved
		t.Error(err)
	}
	const changed = "-ERR the cluster has been divided anew since this SCAN began: start again from 0\r\n"
	for deadline := time.Now().Add(wire.Patience); conn.Do("SCAN", fmt.Sprint(cursor)) != changed; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a SCAN goes on in a cluster that is divided anew")
		}
	}
	if got := conn.Do("FLUSHDB") + conn.Do("DBSIZE") + conn.Do("RANDOMKEY"); got != "+OK\r\n:0\r\n$-1\r\n" {
		t.Errorf("after FLUSHDB: %q", got)
	}
}

// slotKey returns a key of a slot.
func slotKey(slot int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); cluster.Slot([]byte(key)) == slot {
			return key
		}
	}
}

// TestClusterLimiters calls limiters of many slots, in a pipeline, and finds
// their state at the nodes of the slots.
func TestClusterLimiters(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	conn := proxytest.Start(t, nodes.URL()).Dial(t)
	const keys, burst = 100, 4
	var pipeline [][]string
	for range burst + 2 {
		for i := range keys {
			pipeline = append(pipeline, []string{"CL.THROTTLE", fmt.Sprint("user", i), fmt.Sprint(burst), "1", "3600"})
		}
	}
	conn.Send(pipeline...)
	for round := range burst + 2 {
		limited := max(0, round-burst)
		for i := range keys {
			want := fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n", limited, burst+1, max(0, burst-round))
			if got := conn.Reply(); !strings.HasPrefix(got, want) {
				t.Fatalf("round %d, user %d: %q, want %q…", round, i, got, want)
			}
		}
	}
	stored := 0
	for _, node := range nodes.Nodes {
		var n int
		fmt.Sscanf(node.Dial(t).Do("DBSIZE"), ":%d", &n)
		if n == 0 {
			t.Error("a node has no limiter")
		}
		stored += n
	}
	if stored != keys {
		t.Errorf("the nodes have %d limiters, want %d", stored, keys)
	}
	for command, want := range map[string]string{
		"CL.THROTTLE x 1 2":        "-ERR wrong number of arguments for 'cl.throttle' command\r\n",
		"TB.ACQUIRE b 10 5 1000 4": "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n:800\r\n",
	} {
		if got := conn.Do(strings.Fields(command)...); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	// A node that has lost its scripts gets them again.
	for _, node := range nodes.Nodes {
		node.Dial(t).Do("SCRIPT", "FLUSH")
	}
	for i := range keys {
		if got := conn.Do("CL.THROTTLE", fmt.Sprint("user", i), fmt.Sprint(burst), "1", "3600"); !strings.HasPrefix(got, "*5\r\n:1\r\n") {
			t.Errorf("without a script: %q", got)
		}
	}
}

// slotKeys returns keys of one slot, which node has, without braces.
func slotKeys(n int) (keys []string, slot int) {
	slot = cluster.Slot([]byte("a"))
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("k", i); cluster.Slot([]byte(key)) == slot {
			keys = append(keys, key)
		}
	}
	return keys, slot
}

// TestClusterSlotMoves moves a slot while a client counts in it: in every stage
// the pipelines come back in order, as if nothing had moved.
func TestClusterSlotMoves(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	conn := proxytest.Start(t, nodes.URL()).Dial(t)
	keys, slot := slotKeys(4)
	from := nodes.Nodes[slot*3/cluster.Slots]
	to := nodes.Nodes[(slot*3/cluster.Slots+1)%3]
	counted := 0
	count := func(stage string) {
		t.Helper()
		for range 3 {
			const rounds = 20
			var pipeline [][]string
			for range rounds {
				for _, key := range keys {
					pipeline = append(pipeline, []string{"INCR", key}, []string{"GET", "elsewhere:" + key}, []string{"GET", key})
				}
			}
			conn.Send(pipeline...)
			for range rounds {
				counted++
				for _, key := range keys {
					want := []string{fmt.Sprintf(":%d\r\n", counted), "$-1\r\n", fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(counted)), counted)}
					if got := conn.Replies(3); !slices.Equal(got, want) {
						t.Fatalf("%s: %s: %q, want %q", stage, key, got, want)
					}
				}
			}
		}
		if got, want := conn.Do("SET", "new:{"+keys[0]+"}"+stage, "1"), "+OK\r\n"; got != want {
			t.Errorf("%s: a new key: %q, want %q", stage, got, want)
		}
		if got, want := conn.Do("GET", "new:{"+keys[0]+"}"+stage), "$1\r\n1\r\n"; got != want {
			t.Errorf("%s: a new key: %q, want %q", stage, got, want)
		}
	}
	count("before")
	nodes.MoveSlot(slot, from, to, func(stage string) { count(stage) })
	count("after")
	nodes.MoveSlot(slot, to, from, func(string) {})
	count("back again")
}
