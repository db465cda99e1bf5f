package test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"cellproxy/proxy"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// refusal is the reply to a command that is refused.
func refusal(name string) string { return "-ERR " + name + " is not supported by cellproxy\r\n" }

// TestRefusedCommands sends every command that is refused, as it would be sent
// in earnest, in every state that a session can be in.
func TestRefusedCommands(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	for _, test := range []struct {
		flags    []string
		commands map[string]string
	}{
		{nil, map[string]string{
			"SYNC": "SYNC", "PSYNC": "PSYNC ? -1", "REPLCONF": "REPLCONF listening-port 6380", "FAILOVER": "FAILOVER TIMEOUT 1",
		}},
		{[]string{"--refuse", "shutdown,DEBUG"}, map[string]string{
			"SHUTDOWN": "SHUTDOWN NOSAVE", "DEBUG": "DEBUG SEGFAULT",
		}},
	} {
		p := proxytest.Start(t, redis.URL(), test.flags...)
		for name, command := range test.commands {
			t.Run(name, func(t *testing.T) {
				refuseEverywhere(t, p, name, strings.Fields(command))
			})
		}
	}
	stats := redis.Dial(t).Do("INFO", "commandstats")
	for _, name := range []string{"sync", "psync", "replconf", "failover", "shutdown", "debug"} {
		if strings.Contains(stats, "cmdstat_"+name+":") {
			t.Errorf("the upstream was asked for %s", name)
		}
	}
}

func refuseEverywhere(t *testing.T, p *proxytest.Proxy, name string, command []string) {
	want := refusal(name)
	lower := append([]string{strings.ToLower(name)}, command[1:]...)
	expect := func(conn *wire.Conn, want ...string) {
		t.Helper()
		if got := conn.Replies(len(want)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	conn := p.Dial(t)
	conn.Send(command, lower, []string{"PING"})
	expect(conn, want, want, "+PONG\r\n")
	conn.Send([]string{"ECHO", "a"}, command, []string{"ECHO", "b"}, lower, []string{"PING"})
	expect(conn, "$1\r\na\r\n", want, "$1\r\nb\r\n", want, "+PONG\r\n")
	conn.Send([]string{"CLIENT", "REPLY", "SKIP"}, command, []string{"PING"})
	expect(conn, "+PONG\r\n")
	conn.Send([]string{"BLPOP", "nosuch", "0.01"}, command, []string{"PING"})
	expect(conn, "*-1\r\n", want, "+PONG\r\n")
	conn.Send([]string{"MULTI"}, []string{"PING"}, command, []string{"EXEC"}, []string{"PING"})
	expect(conn, "+OK\r\n", "+QUEUED\r\n", want, "-EXECABORT Transaction discarded because of previous errors.\r\n", "+PONG\r\n")

	wire := p.Dial(t)
	wire.Do("HELLO", "3")
	wire.Do("CLIENT", "TRACKING", "ON")
	wire.Send([]string{"ECHO", "a"}, command, []string{"ECHO", "b"}, []string{"MULTI"}, lower, []string{"EXEC"}, []string{"PING"})
	instead := "-ERR unknown command '" + strings.TrimSuffix(strings.TrimPrefix(want, "-ERR "), "\r\n") +
		"', with args beginning with: \r\n"
	expect(wire, "$1\r\na\r\n", instead, "$1\r\nb\r\n", "+OK\r\n", instead,
		"-EXECABORT Transaction discarded because of previous errors.\r\n", "+PONG\r\n")
}

// TestServedUnlessRefused sees that DEBUG and SHUTDOWN are the upstream's own
// business otherwise.
func TestServedUnlessRefused(t *testing.T) {
	p := newPair(t, redistest.Options{})
	conn := p.proxy.Dial(t)
	if got, want := conn.Do("DEBUG", "STRINGMATCH-LEN", "1", "*"), p.admin.Do("DEBUG", "STRINGMATCH-LEN", "1", "*"); got != want {
		t.Errorf("DEBUG = %q, want %q", got, want)
	}
	conn.Send([]string{"SHUTDOWN", "NOSAVE"})
	if _, err := p.admin.ReadAll(); err != nil {
		t.Errorf("a client of the upstream: %v, want the end", err)
	}
}

// TestReadmeListsWhatIsRefused compares the README's table with the default.
func TestReadmeListsWhatIsRefused(t *testing.T) {
	_, section, _ := strings.Cut(readme(t), "\n## What is refused")
	row, _, _ := strings.Cut(section[strings.Index(section, "| `"):], "\n")
	var got []string
	cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), "|")
	for _, match := range regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(cell, -1) {
		got = append(got, match[1])
	}
	if !slices.Equal(got, proxy.DefaultRefuse) {
		t.Errorf("the README says that %q are refused, want %q", got, proxy.DefaultRefuse)
	}
}

// TestScriptDebugging debugs a script on one connection, while another client
// runs scripts on the stream that all share.
func TestScriptDebugging(t *testing.T) {
	p := newPair(t, redistest.Options{})
	dialogue := func(conn *wire.Conn) string {
		conn.Send([]string{"SCRIPT", "DEBUG", "YES"})
		said := conn.Reply()
		conn.Send([]string{"EVAL", "local a = 1\nreturn a + 1", "0"})
		said += conn.Reply()
		other := p.proxy.Dial(t)
		if got := other.Do("EVAL", "return 7", "0") + other.Do("CL.THROTTLE", "k", "15", "30", "60"); got != ":7\r\n"+integers(0, 16, 15, -1, 2) {
			t.Errorf("another client got %q", got)
		}
		other.Do("DEL", "k")
		conn.Send([]string{"c"})
		rest, err := conn.ReadAll()
		if err != nil {
			t.Error(err)
		}
		return said + rest
	}
	if got, want := dialogue(p.proxy.Dial(t)), dialogue(p.redis.Dial(t)); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
