package cluster

import (
	"context"
	"strings"
	"testing"

	"cellproxy/test/redistest"
)

// TestSlotIsThatOfRedis has keys of the Redis Cluster specification, and such
// whose braces are none.
func TestSlotIsThatOfRedis(t *testing.T) {
	for key, want := range map[string]int{
		"":                     0,
		"123456789":            0x31c3,
		"foo":                  12182,
		"{user1000}.following": Slot([]byte("user1000")),
		"foo{}{bar}":           8363,
		"foo{{bar}}zap":        Slot([]byte("{bar")),
		"foo{bar}{zap}":        Slot([]byte("bar")),
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("%q is in slot %d, want %d", key, got, want)
		}
	}
}

// TestKeyIsWhereRedisHasIt asks a server where the keys of commands are.
func TestKeyIsWhereRedisHasIt(t *testing.T) {
	client := redistest.Start(t, redistest.Options{}).Client(t)
	reply, err := client.Do(context.Background(), "COMMAND").Result()
	if err != nil {
		t.Fatal(err)
	}
	known, err := ParseCommands(reply)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"get a", "GET a", "set a 1 EX 5", "mset a 1 b 2", "OBJECT encoding a", "object freq a",
		"zunionstore d 2 a b", "zunion 2 a b", "SINTERCARD 2 a b", "xread count 1 streams a b 0 0",
		"XREADGROUP group g c BLOCK 10 STREAMS a >", "eval return 1 a x", "evalsha 00 2 a b c", "fcall f 1 a",
		"sort a by w_* store d", "georadius a 1 1 1 km store d", "memory usage a", "xinfo stream a",
		"xgroup create a g 0", "bitop and d a b", "lmpop 1 a left", "blmpop 0 1 a left", "blpop a b 0",
		"migrate h 1 a 0 10", "spublish a m", "restore a 0 x", "lcs a b", "object help", "ping", "config get a",
		"eval return 0", "get", "publish a m", "nosuch a",
	} {
		args := strings.Fields(line)
		words, asked := make([][]byte, len(args)), []any{"COMMAND", "GETKEYS"}
		for i, arg := range args {
			words[i], asked = []byte(arg), append(asked, arg)
		}
		want := ""
		if keys, err := client.Do(context.Background(), asked...).StringSlice(); err == nil && len(keys) > 0 {
			want = keys[0]
		}
		if args[0] == "spublish" {
			want = "a" // a channel, but it has a slot
		}
		if got, _ := known.Key(words); string(got) != want {
			t.Errorf("%s: first key %q, want %q", line, got, want)
		}
	}
}

// TestKeyWithAnOlderRedis has entries of COMMAND as Redis 6 makes them.
func TestKeyWithAnOlderRedis(t *testing.T) {
	entry := func(name string, first int64) any {
		return []any{name, int64(-2), []any{}, first, first, int64(1), []any{}}
	}
	known, err := ParseCommands([]any{entry("get", 1), entry("evalsha", 0), entry("xread", 0), entry("object", 2)})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"GET a": "a", "EVALSHA 00 1 a": "a", "EVALSHA 00 0 a": "", "XREAD COUNT 1 STREAMS a 0": "a", "OBJECT FREQ a": "a",
	} {
		var words [][]byte
		for _, arg := range strings.Fields(line) {
			words = append(words, []byte(arg))
		}
		if got, _ := known.Key(words); string(got) != want {
			t.Errorf("%s: first key %q, want %q", line, got, want)
		}
	}
}

func TestParseTable(t *testing.T) {
	node := func(host any, port int64) any { return []any{host, port, "id"} }
	reply := []any{
		[]any{int64(100), int64(199), node("10.0.0.2", 7001), node("10.0.0.9", 7009)},
		[]any{int64(0), int64(99), node("", 7000)},
		[]any{int64(300), int64(300), node(nil, 7000)},
	}
	table, err := ParseTable(reply, "127.0.0.1:9999")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(table.Masters, " "), "127.0.0.1:7000 10.0.0.2:7001"; got != want {
		t.Errorf("masters %s, want %s", got, want)
	}
	for slot, want := range map[int]int{0: 0, 99: 0, 100: 1, 199: 1, 200: -1, 300: 0, Slots - 1: -1} {
		if got := table.Owner(slot); got != want {
			t.Errorf("slot %d belongs to %d, want %d", slot, got, want)
		}
	}
	again, _ := ParseTable(reply, "127.0.0.1:1")
	other, _ := ParseTable(reply[:1], "127.0.0.1:1")
	if !table.Equal(again) || table.Equal(other) || table.Fingerprint == other.Fingerprint {
		t.Error("tables that are equal differ, or others don't")
	}
	for _, bad := range []any{nil, "x", []any{int64(1)}, []any{[]any{int64(5), int64(2), node("", 1)}}, []any{[]any{int64(0), int64(Slots), node("", 1)}}} {
		if _, err := ParseTable(bad, "h:1"); err == nil {
			t.Errorf("%v is taken for slots", bad)
		}
	}
}
