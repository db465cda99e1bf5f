package test

import (
	"strconv"
	"strings"
	"testing"

	"cellproxy/commands"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// bothProtocols runs a test with a connection to Redis and one through
// cellproxy, in RESP2 and RESP3.
func bothProtocols(t *testing.T, test func(t *testing.T, direct, proxied *wire.Conn, protocol int)) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	for _, protocol := range []int{2, 3} {
		t.Run("RESP"+strconv.Itoa(protocol), func(t *testing.T) {
			direct, proxied := redis.Dial(t), proxy.Dial(t)
			for _, conn := range []*wire.Conn{direct, proxied} {
				conn.Do("HELLO", strconv.Itoa(protocol))
			}
			test(t, direct, proxied, protocol)
		})
	}
}

// limiterEntries returns what all limiters have in a reply to COMMAND.
func limiterEntries(sub string, protocol int) (entries string, elements int) {
	var b []byte
	for _, limiter := range commands.All() {
		switch sub {
		case "DOCS":
			b = limiter.AppendDocs(b, protocol)
		case "LIST":
			b = append(b, bulk(strings.ToLower(limiter.Name))...)
		default:
			b = limiter.AppendInfo(b, protocol)
		}
		elements++
	}
	if sub == "DOCS" && protocol == 2 {
		elements *= 2
	}
	return string(b), elements
}

// withMore adds elements to the end of an aggregate.
func withMore(t *testing.T, reply, entries string, elements int) string {
	t.Helper()
	head, body, _ := strings.Cut(reply, "\r\n")
	n, err := strconv.Atoi(head[1:])
	if err != nil {
		t.Fatalf("no aggregate: %.100q", reply)
	}
	return head[:1] + strconv.Itoa(n+elements) + "\r\n" + body + entries
}

func TestCommandTellsOfLimiters(t *testing.T) {
	bothProtocols(t, func(t *testing.T, direct, proxied *wire.Conn, protocol int) {
		for _, args := range [][]string{{"COMMAND"}, {"command", "info"}, {"COMMAND", "DOCS"}, {"COMMAND", "LIST"}} {
			entries, elements := limiterEntries(strings.ToUpper(args[len(args)-1]), protocol)
			want := withMore(t, direct.Do(args...), entries, elements)
			if got := proxied.Do(args...); wire.Sorted(got) != wire.Sorted(want) {
				t.Errorf("%q: %d bytes that end in\n%.300q, want %d with\n%.300q", args, len(got),
					got[len(got)-min(len(got), len(entries)):], len(want), entries)
			}
			if got := proxied.Do("PING"); got != "+PONG\r\n" {
				t.Fatalf("%q is answered with more than one reply: %q", args, got)
			}
		}
		count, _ := strconv.Atoi(strings.Trim(direct.Do("COMMAND", "COUNT"), ":\r\n"))
		if got, want := proxied.Do("COMMAND", "COUNT"), integer(count+len(commands.All())); got != want {
			t.Errorf("COMMAND COUNT = %q, want %q", got, want)
		}
	})
}

// TestCommandEntryIsLikeRedis compares the entries of a limiter with those that
// Redis has for a command of one key.
func TestCommandEntryIsLikeRedis(t *testing.T) {
	bothProtocols(t, func(t *testing.T, direct, proxied *wire.Conn, protocol int) {
		want := strings.NewReplacer(
			bulk("incr")+":2\r\n", bulk("cl.throttle")+":-5\r\n",
			"+fast", "+noscript", "+@string", "+@scripting",
			"+@fast\r\n*0\r\n", "+@slow\r\n*1\r\n"+bulk("nondeterministic_output"),
			"+@fast\r\n~0\r\n", "+@slow\r\n~1\r\n"+bulk("nondeterministic_output"),
		).Replace(direct.Do("COMMAND", "INFO", "incr"))
		if got := proxied.Do("COMMAND", "INFO", "cl.throttle"); got != want {
			t.Errorf("COMMAND INFO\n got %q\nwant %q", got, want)
		}
		_, want, _ = strings.Cut(direct.Do("COMMAND", "DOCS", "incr"), bulk("arguments")+"*1\r\n")
		if got := proxied.Do("COMMAND", "DOCS", "cl.throttle"); !strings.Contains(got, bulk("arguments")+"*5\r\n"+want) {
			t.Errorf("COMMAND DOCS = %q, lacks the key as Redis describes it: %q", got, want)
		}
	})
}

func TestCommandInfoKeepsTheOrderOfNames(t *testing.T) {
	bothProtocols(t, func(t *testing.T, direct, proxied *wire.Conn, protocol int) {
		want := direct.Do("COMMAND", "INFO", "GET", "nosuch", "config|get")
		_, entries, _ := strings.Cut(want, "\r\n")
		null := map[int]string{2: "*-1\r\n", 3: "_\r\n"}[protocol]
		get, other, found := strings.Cut(entries, null)
		if !found {
			null = "$-1\r\n"
			get, other, _ = strings.Cut(entries, null)
		}
		throttle := string(commands.Lookup([]byte("CL.THROTTLE")).AppendInfo(nil, protocol))
		acquire := string(commands.Lookup([]byte("TB.ACQUIRE")).AppendInfo(nil, protocol))
		want = "*6\r\n" + throttle + get + acquire + null + other + throttle
		got := proxied.Do("COMMAND", "INFO", "CL.THROTTLE", "GET", "tb.acquire", "nosuch", "config|get", "Cl.Throttle")
		if got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
		docs := string(commands.Lookup([]byte("TB.ACQUIRE")).AppendDocs(nil, protocol))
		want = withMore(t, direct.Do("COMMAND", "DOCS", "GET", "nosuch"), docs, 3-protocol+1)
		if got := proxied.Do("COMMAND", "DOCS", "GET", "TB.ACQUIRE", "nosuch"); wire.Sorted(got) != wire.Sorted(want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}

func TestCommandList(t *testing.T) {
	all, n := limiterEntries("LIST", 2)
	bothProtocols(t, func(t *testing.T, direct, proxied *wire.Conn, protocol int) {
		for _, x := range []struct {
			filter string
			more   string
			n      int
		}{
			{"FILTERBY PATTERN cl.thr*", bulk("cl.throttle"), 1},
			{"filterby pattern [CT][LB].?[HC]*", bulk("cl.throttle") + bulk("tb.acquire"), 2},
			{"FILTERBY PATTERN xr*", "", 0},
			{"FILTERBY ACLCAT scripting", all, n},
			{"FILTERBY ACLCAT fast", "", 0},
			{"FILTERBY MODULE redis-cell", "", 0},
		} {
			args := append([]string{"COMMAND", "LIST"}, strings.Fields(x.filter)...)
			want := withMore(t, direct.Do(args...), x.more, x.n)
			if got := proxied.Do(args...); wire.Sorted(got) != wire.Sorted(want) {
				t.Errorf("%q\n got %q\nwant %q", args, got, want)
			}
		}
		for _, mistake := range []string{"LIST x", "LIST FILTERBY PATTERN", "COUNT x", "NOSUCH", "LIST FILTERBY NOSUCH x"} {
			args := append([]string{"COMMAND"}, strings.Fields(mistake)...)
			if got, want := proxied.Do(args...), direct.Do(args...); got != want || got[0] != '-' {
				t.Errorf("%q = %q, want %q", args, got, want)
			}
		}
	})
}

func TestCommandFindsKeysOfLimiters(t *testing.T) {
	bothProtocols(t, func(t *testing.T, direct, proxied *wire.Conn, protocol int) {
		for _, x := range []struct{ limiter, like string }{
			{"CL.THROTTLE k 15 30 60", "INCR k"},
			{"cl.throttle k 15 30 60 1", "incr k"},
			{"CL.THROTTLE", "INCR"},
			{"CL.THROTTLE k", "INCR k k"},
			{"CL.THROTTLE k 15 30 60 1 1", "INCR k k"},
			{"GETSET k v", "GETSET k v"},
			{"NOSUCH k", "NOSUCH k"},
		} {
			for _, sub := range []string{"GETKEYS", "getkeysandflags"} {
				want := direct.Do(append([]string{"COMMAND", sub}, strings.Fields(x.like)...)...)
				if got := proxied.Do(append([]string{"COMMAND", sub}, strings.Fields(x.limiter)...)...); got != want {
					t.Errorf("COMMAND %s %s = %q, want %q", sub, x.limiter, got, want)
				}
			}
		}
	})
}

// TestCommandKeepsItsPlace sends COMMAND among others, and where it is for the
// upstream alone to answer.
func TestCommandKeepsItsPlace(t *testing.T) {
	bothProtocols(t, func(t *testing.T, direct, proxied *wire.Conn, protocol int) {
		count := direct.Do("COMMAND", "COUNT")
		n, _ := strconv.Atoi(strings.Trim(count, ":\r\n"))
		more := integer(n + len(commands.All()))
		proxied.Send([]string{"SET", "k", "1"}, []string{"COMMAND", "COUNT"}, []string{"INCR", "k"},
			[]string{"COMMAND", "GETKEYS", "CL.THROTTLE", "a", "1", "2", "3"}, []string{"INCR", "k"},
			[]string{"CLIENT", "REPLY", "SKIP"}, []string{"COMMAND", "COUNT"}, []string{"INCR", "k"},
			[]string{"WATCH", "k"}, []string{"COMMAND", "COUNT"}, []string{"MULTI"},
			[]string{"COMMAND", "COUNT"}, []string{"INCR", "k"}, []string{"EXEC"})
		want := "+OK\r\n" + more + ":2\r\n*1\r\n$1\r\na\r\n:3\r\n:4\r\n+OK\r\n" + more +
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + count + ":5\r\n"
		if got := strings.Join(proxied.Replies(12), ""); got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}

func TestCommandIsTheUpstreamsToAllow(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Dial(t).Do("ACL", "SETUSER", "default", "-command")
	direct, proxied := redis.Dial(t), proxytest.Start(t, redis.URL()).Dial(t)
	for _, args := range [][]string{
		{"COMMAND"}, {"COMMAND", "COUNT"}, {"COMMAND", "DOCS", "CL.THROTTLE"}, {"COMMAND", "GETKEYS", "INCR", "k"},
	} {
		if got, want := proxied.Do(args...), direct.Do(args...); got != want || !strings.HasPrefix(got, "-NOPERM") {
			t.Errorf("%q = %q, want %q", args, got, want)
		}
	}
}

func TestCommandOfTheEmbeddedStore(t *testing.T) {
	conn := proxytest.Start(t, "").Dial(t)
	docs, n := limiterEntries("DOCS", 2)
	for _, x := range []exchange{
		{[]string{"COMMAND", "DOCS"}, "*" + strconv.Itoa(n) + "\r\n" + docs},
		{[]string{"COMMAND", "COUNT"}, "-ERR unknown subcommand 'COUNT'.\r\n"},
	} {
		if got := conn.Do(x.command...); got != x.want {
			t.Errorf("%q = %q, want %q", x.command, got, x.want)
		}
	}
	entries, _ := limiterEntries("", 2)
	if got := conn.Do("COMMAND"); !strings.HasPrefix(got, "*"+strconv.Itoa(200+len(commands.All()))+"\r\n") || !strings.HasSuffix(got, entries) {
		t.Errorf("COMMAND = %.100q", got)
	}
}

func integer(n int) string {
	return ":" + strconv.Itoa(n) + "\r\n"
}
