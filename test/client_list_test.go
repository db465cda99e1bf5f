package test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// fieldNames are the names of the fields of a line of CLIENT LIST.
var fieldNames = regexp.MustCompile(`=\S*`)

// clientLines returns the lines of a reply to CLIENT LIST.
func clientLines(t *testing.T, reply string) []string {
	t.Helper()
	_, body, _ := strings.Cut(reply, "\r\n")
	body, found := strings.CutSuffix(strings.TrimPrefix(body, "txt:"), "\n\r\n")
	if !found {
		t.Fatalf("CLIENT LIST = %q", reply)
	}
	return strings.Split(body, "\n")
}

// TestClientList has clients of all kinds listed: their own addresses and
// numbers, not those of the connections that they share.
func TestClientList(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	direct, proxy := redis.Dial(t), proxytest.Start(t, redis.URL())
	named, subscriber, multi, asker := proxy.Dial(t), proxy.Dial(t), proxy.Dial(t), proxy.Dial(t)
	named.Do("HELLO", "3", "SETNAME", "named")
	named.Do("SELECT", "5")
	subscriber.Do("SUBSCRIBE", "c")
	multi.Do("MULTI")
	multi.Do("PING")
	want := []struct {
		conn *wire.Conn
		has  string
	}{
		{named, " name=named .* flags=N db=5 .* resp=3"},
		{subscriber, " name= .* flags=P db=0 sub=1 .* cmd=subscribe .* resp=2"},
		{multi, " name= .* flags=x db=0 .* multi=1 .* resp=2"},
		{asker, " name= .* flags=N db=0 .* cmd=client.list .* resp=2"},
	}
	if got := asker.Do("CLIENT", "INFO"); !strings.Contains(got, " flags=N ") {
		t.Errorf("CLIENT INFO = %q", got)
	}
	fields := fieldNames.ReplaceAllString(clientLines(t, direct.Do("CLIENT", "LIST"))[0], "")
	for _, protocol := range []string{"2", "3"} {
		asker.Do("HELLO", protocol)
		lines := clientLines(t, asker.Do("CLIENT", "LIST"))
		if len(lines) != len(want) {
			t.Fatalf("%d lines, want %d: %q", len(lines), len(want), lines)
		}
		for i, w := range want {
			has := fmt.Sprintf("^id=[0-9]+ addr=%v laddr=%v .*%s", w.conn.LocalAddr(), w.conn.RemoteAddr(),
				strings.ReplaceAll(w.has, "resp=2", "resp=[23]"))
			if found, err := regexp.MatchString(has, lines[i]); !found {
				t.Errorf("line %d = %q, want %q (%v)", i, lines[i], has, err)
			}
			if got := fieldNames.ReplaceAllString(lines[i], ""); got != fields {
				t.Errorf("line %d has fields %q, want %q", i, got, fields)
			}
			id, _, _ := strings.Cut(strings.TrimPrefix(lines[i], "id="), " ")
			if got := clientLines(t, asker.Do("CLIENT", "LIST", "ID", "1", id)); len(got) != 1 || !strings.HasPrefix(got[0], "id="+id+" ") {
				t.Errorf("CLIENT LIST ID %s = %q", id, got)
			}
		}
		for only, n := range map[string]int{"normal": 3, "PUBSUB": 1} {
			if got := clientLines(t, asker.Do("CLIENT", "LIST", "TYPE", only)); len(got) != n {
				t.Errorf("CLIENT LIST TYPE %s = %q, want %d lines", only, got, n)
			}
		}
	}
	for _, args := range []string{"TYPE master", "TYPE replica", "TYPE nosuch", "TYPE", "ID", "ID x", "ID 1", "NOSUCH 1"} {
		command := append([]string{"CLIENT", "LIST"}, strings.Fields(args)...)
		asker.Do("HELLO", "2")
		if got, want := asker.Do(command...), direct.Do(command...); got != want {
			t.Errorf("%q = %q, want %q", command, got, want)
		}
	}
}

// TestClientKill ends clients by each way to name them: only these, and no
// connection that they share.
func TestClientKill(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Dial(t).Do("ACL", "SETUSER", "alice", "on", ">secret", "~*", "&*", "+@all")
	proxy := proxytest.Start(t, redis.URL())
	for _, x := range []struct{ name, args, reply string }{
		{"id", "ID {id}", ":1"},
		{"addr", "ADDR {addr}", ":1"},
		{"old form", "{addr}", "+OK"},
		{"user", "USER alice", ":1"},
		{"type", "TYPE pubsub", ":1"},
		{"several", "ID {id} ADDR {addr} TYPE pubsub USER alice SKIPME no", ":1"},
		{"laddr", "LADDR {laddr} USER alice", ":1"},
	} {
		t.Run(x.name, func(t *testing.T) {
			victim, killer, other := proxy.Dial(t), proxy.Dial(t), proxy.Dial(t)
			id := strings.Trim(victim.Do("CLIENT", "ID"), ":\r\n")
			victim.Do("AUTH", "alice", "secret")
			victim.Do("SUBSCRIBE", "c")
			args := strings.NewReplacer("{id}", id, "{addr}", victim.LocalAddr().String(), "{laddr}", victim.RemoteAddr().String()).Replace(x.args)
			if got := killer.Do(append([]string{"CLIENT", "KILL"}, strings.Fields(args)...)...); got != x.reply+"\r\n" {
				t.Errorf("CLIENT KILL %s = %q, want %q", args, got, x.reply)
			}
			if got, err := victim.ReadAll(); got != "" || err != nil {
				t.Errorf("the victim read %q, %v", got, err)
			}
			for _, conn := range []*wire.Conn{killer, other} {
				if got := conn.Do("INCR", "k"); got[0] != ':' {
					t.Errorf("INCR = %q", got)
				}
			}
		})
	}
}

func TestClientKillAll(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	killer, other, third := proxy.Dial(t), proxy.Dial(t), proxy.Dial(t)
	other.Do("PING")
	third.Do("PING")
	if got := killer.Do("CLIENT", "KILL", "SKIPME", "yes"); got != ":2\r\n" {
		t.Errorf("CLIENT KILL SKIPME yes = %q", got)
	}
	last := proxy.Dial(t)
	last.Do("PING")
	if got := killer.Do("CLIENT", "KILL", "SKIPME", "no", "TYPE", "normal"); got != ":2\r\n" {
		t.Errorf("CLIENT KILL SKIPME no = %q", got)
	}
	for _, conn := range []*wire.Conn{other, third, last, killer} {
		if got, err := conn.ReadAll(); got != "" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	}
}

// TestClientKillIsTheUpstreamsToAllow has somebody kill who may not, and by what
// is wrong or names nobody.
func TestClientKillIsTheUpstreamsToAllow(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Dial(t).Do("ACL", "SETUSER", "bob", "on", ">secret", "~*", "&*", "+@all", "-client|kill")
	direct, proxy := redis.Dial(t), proxytest.Start(t, redis.URL())
	conn, victim := proxy.Dial(t), proxy.Dial(t)
	id := strings.Trim(victim.Do("CLIENT", "ID"), ":\r\n")
	for _, args := range []string{
		"", "ID x", "ID 0", "ID 1 TYPE", "TYPE nosuch", "USER nosuch", "SKIPME maybe", "NOSUCH 1", "10.0.0.1:1", "ADDR 10.0.0.1:1",
	} {
		command := append([]string{"CLIENT", "KILL"}, strings.Fields(args)...)
		if got, want := conn.Do(command...), direct.Do(command...); got != want {
			t.Errorf("%q = %q, want %q", command, got, want)
		}
	}
	for _, who := range []*wire.Conn{conn, direct} {
		who.Do("AUTH", "bob", "secret")
	}
	want := direct.Do("CLIENT", "KILL", "ID", id)
	if got := conn.Do("CLIENT", "KILL", "ID", id); got != want || !strings.HasPrefix(got, "-NOPERM") {
		t.Errorf("CLIENT KILL by who may not = %q, want %q", got, want)
	}
	if got := victim.Do("PING"); got != "+PONG\r\n" {
		t.Errorf("the victim's PING = %q", got)
	}
}
