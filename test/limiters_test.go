package test

import (
	"fmt"
	"strings"
	"testing"

	"cellproxy/commands"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// limiterCalls are calls of all limiters of ten units, on keys of their own, and
// how the replies begin and end.
var limiterCalls = map[string][]struct{ words, begins, ends string }{
	"CL.THROTTLE": {
		{"cl 9 1 1000 4", "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"cl 9 1 1000 7", "*5\r\n:1\r\n:10\r\n:6\r\n", ""},
		{"cl 9 1 1000 11", "*5\r\n:1\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"cl 9 1 1000 -4", "*5\r\n:0\r\n:10\r\n:10\r\n:-1\r\n:0\r\n", ""},
	},
	"FW.ACQUIRE": {
		{"fw 10 1000000 4", "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"fw 10 1000000 7 align", "*5\r\n:1\r\n:10\r\n:6\r\n", ""},
		{"fw 10 1000000 11", "*5\r\n:1\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"fw 10 1000000 -4", "*5\r\n:0\r\n:10\r\n:10\r\n:-1\r\n", ""},
	},
	"SW.ACQUIRE": {
		{"sw 10 1000000 4", "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"sw 10 1000000 7 EXACT", "*5\r\n:1\r\n:10\r\n:6\r\n", ""},
		{"sw 10 1000000 11 slices 20", "*5\r\n:1\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"sw 10 1000000 -4", "-ERR quantity must not be negative\r\n", ""},
	},
	"SL.ACQUIRE": {
		{"sl 4 10 1000000 20 2000000", "*6\r\n:0\r\n:10\r\n:6\r\n:-1\r\n", ":-1\r\n"},
		{"sl 7 20 1000000 10 2000000", "*6\r\n:1\r\n:10\r\n:6\r\n", ":1\r\n"},
		{"sl 11 10 1000000", "*6\r\n:1\r\n:10\r\n:6\r\n:-1\r\n", ":0\r\n"},
		{"sl 1 10 1000000 20", "-ERR syntax error\r\n", ""},
	},
	"TB.ACQUIRE": {
		{"tb 10 1 1000000 4", "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"tb 10 1 1000000 7", "*5\r\n:1\r\n:10\r\n:6\r\n", ""},
		{"tb 10 1 1000000 11", "*5\r\n:1\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"tb 10 1 1000000 -4", "*5\r\n:0\r\n:10\r\n:10\r\n:-1\r\n:0\r\n", ""},
	},
	"LB.ACQUIRE": {
		{"lb 10 1 1000000 4", "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"lb 10 1 1000000 7", "*5\r\n:1\r\n:10\r\n:6\r\n", ""},
		{"lb 10 1 1000000 11", "*5\r\n:1\r\n:10\r\n:6\r\n:-1\r\n", ""},
		{"lb 10 1 1000000 -4", "*5\r\n:0\r\n:10\r\n:10\r\n:-1\r\n:0\r\n", ""},
	},
}

// TestEveryLimiter calls each one by one, in a pipeline between other commands
// on the same key, and in a transaction, on either protocol and either upstream.
func TestEveryLimiter(t *testing.T) {
	for name, url := range map[string]string{"redis": redistest.Start(t, redistest.Options{}).URL(), "embedded store": ""} {
		proxy := proxytest.Start(t, url)
		for _, protocol := range []string{"2", "3"} {
			for _, command := range commands.All() {
				t.Run(fmt.Sprint(command.Name, " on ", name, " by RESP", protocol), func(t *testing.T) {
					conn := proxy.Dial(t)
					conn.Do("HELLO", protocol)
					callLimiter(t, conn, command.Name)
				})
			}
		}
	}
}

func callLimiter(t *testing.T, conn *wire.Conn, command string) {
	t.Helper()
	calls := limiterCalls[command]
	if len(calls) == 0 {
		t.Fatal("no calls")
	}
	key := strings.Fields(calls[0].words)[0]
	check := func(replies []string) {
		t.Helper()
		for i, call := range calls {
			if !strings.HasPrefix(replies[i], call.begins) || !strings.HasSuffix(replies[i], call.ends) {
				t.Errorf("%s %s: got %q, want %q...%q", command, call.words, replies[i], call.begins, call.ends)
			}
		}
	}
	var all [][]string
	var replies []string
	for _, call := range calls {
		all = append(all, append([]string{command}, strings.Fields(call.words)...))
		replies = append(replies, conn.Do(all[len(all)-1]...))
	}
	check(replies)

	conn.Send(append(append([][]string{{"DEL", key}}, all...), []string{"TYPE", key}, []string{"DEL", key})...)
	replies = conn.Replies(len(all) + 3)
	check(replies[1:])
	exists := replies[len(all)+1] == "+string\r\n"
	if want := map[bool]string{true: ":1\r\n", false: ":0\r\n"}[exists]; replies[len(all)+2] != want {
		t.Errorf("TYPE = %q, DEL = %q", replies[len(all)+1], replies[len(all)+2])
	}

	// A call that is wrong would end the transaction.
	all = all[:3]
	conn.Send(append(append([][]string{{"MULTI"}}, all...), []string{"EXEC"}, []string{"DEL", key})...)
	replies = conn.Replies(len(all) + 3)
	for i := range all {
		if replies[i+1] != "+QUEUED\r\n" {
			t.Errorf("%q in MULTI: %q", all[i], replies[i+1])
		}
	}
	rest, ok := strings.CutPrefix(replies[len(all)+1], fmt.Sprintf("*%d\r\n", len(all)))
	for i, call := range calls[:3] {
		if !ok || !strings.HasPrefix(rest, call.begins) {
			t.Fatalf("EXEC = %q, want %q... for %q", replies[len(all)+1], call.begins, all[i])
		}
		rest = rest[len(call.begins):]
		if at := strings.Index(rest, "*"); at >= 0 {
			rest = rest[at:]
		}
	}
}
