package test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// step is something one of a few clients does. In a line of a scenario
//
//	a: BLPOP list 0 -> 0
//	b: LPUSH list x
//	a: -> 1
//
// the letter is the client, the number after the arrow is how many replies it
// then reads; without an arrow that is one. A line that begins with a question
// mark waits until the upstream says so in INFO.
type step struct {
	client   string
	commands [][]string
	replies  int
}

func parseScenario(t *testing.T, lines string) []step {
	t.Helper()
	var steps []step
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		client, rest, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("no client in %q", line)
		}
		s := step{client: client}
		rest, arrow, hasArrow := strings.Cut(rest, "->")
		for command := range strings.SplitSeq(rest, "|") {
			if args := strings.Fields(command); len(args) > 0 {
				s.commands = append(s.commands, args)
			}
		}
		s.replies = len(s.commands)
		if hasArrow {
			s.replies = int(strings.TrimSpace(arrow)[0] - '0')
		}
		steps = append(steps, s)
	}
	return steps
}

// play runs a scenario and returns what came back, step by step.
func (p *pair) play(t *testing.T, steps []step, dial func(testing.TB) *wire.Conn, protocol string) []string {
	t.Helper()
	clients := map[string]*wire.Conn{}
	defer func() {
		for _, conn := range clients {
			conn.Close()
		}
	}()
	var transcript []string
	for _, s := range steps {
		if s.client == "?" {
			p.awaitInfo(t, s.commands[0][0])
			transcript = append(transcript, "")
			continue
		}
		conn := clients[s.client]
		if conn == nil {
			conn = dial(t)
			clients[s.client] = conn
			if reply := conn.Do("HELLO", protocol); strings.HasPrefix(reply, "-") {
				t.Fatal(reply)
			}
		}
		if len(s.commands) > 0 {
			conn.Send(s.commands...)
		}
		transcript = append(transcript, withoutID(strings.Join(conn.Replies(s.replies), "")))
	}
	return transcript
}

// awaitInfo waits until the upstream's INFO has a line.
func (p *pair) awaitInfo(t *testing.T, line string) {
	t.Helper()
	for deadline := time.Now().Add(wire.Patience); ; {
		info := p.admin.Do("INFO", "everything")
		if slices.Contains(strings.Split(info, "\r\n"), line) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("INFO never said %s", line)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSessionsBehaveAlike(t *testing.T) {
	p := newPair(t, redistest.Options{})
	for _, scenario := range sessionScenarios {
		for _, protocol := range []string{"2", "3"} {
			t.Run(scenario.name+" RESP"+protocol, func(t *testing.T) {
				steps := parseScenario(t, scenario.steps)
				p.reset(t, redistest.Options{})
				want := p.play(t, steps, p.redis.Dial, protocol)
				p.awaitInfo(t, "blocked_clients:0")
				p.reset(t, redistest.Options{})
				got := p.play(t, steps, p.proxy.Dial, protocol)
				for i, s := range steps {
					if got[i] != want[i] {
						t.Fatalf("step %d, %s: %q\n got %q\nwant %q", i, s.client, s.commands, got[i], want[i])
					}
				}
			})
		}
	}
}

var sessionScenarios = []struct{ name, steps string }{
	{"transaction", `
		a: MULTI
		a: SET k 1
		a: INCR k
		a: LPUSH k x
		a: GET k
		a: EXEC
		a: EXEC
		a: MULTI | SET k 2 | INCR k | EXEC | GET k`},
	{"discarded transaction", `
		a: SET k 1
		a: MULTI
		a: SET k 2
		a: MULTI
		a: DISCARD
		a: GET k
		a: DISCARD`},
	{"aborted transaction", `
		a: MULTI
		a: SET k
		a: NOSUCH
		a: SET k 1
		a: EXEC
		a: GET k`},
	{"empty transaction", `
		a: MULTI | EXEC
		a: MULTI
		a: EXEC`},
	{"watched key touched by another", `
		a: WATCH k
		b: SET k 1
		a: MULTI
		a: SET k 2
		a: EXEC
		a: GET k`},
	{"watched key left alone", `
		a: WATCH k k2
		a: GET k
		a: MULTI
		a: SET k 2
		a: EXEC
		b: GET k`},
	{"unwatched key", `
		a: WATCH k
		b: SET k 1
		a: UNWATCH
		a: MULTI | SET k 2 | EXEC`},
	{"watch in a transaction", `
		a: MULTI
		a: WATCH k
		a: UNWATCH
		a: EXEC`},
	{"watch ends with exec", `
		a: WATCH k
		a: MULTI | EXEC
		b: SET k 1
		a: MULTI | SET k 2 | EXEC`},
	{"transactions of two clients", `
		a: MULTI
		b: MULTI
		a: INCR k
		b: INCR k
		b: GET k
		b: EXEC
		a: GET k
		a: EXEC`},
	{"select", `
		a: SET k zero
		a: SELECT 3
		a: GET k
		a: SET k three
		b: GET k
		a: SELECT 0 | GET k | SELECT 3 | GET k | SELECT 99 | GET k | SELECT x | GET k`},
	{"select in a transaction", `
		a: MULTI
		a: SELECT 4
		a: SET k four
		a: EXEC
		a: GET k
		b: GET k
		a: SELECT 0
		a: GET k`},
	{"select while watching", `
		a: WATCH k
		a: SELECT 2
		a: SET k 1
		a: MULTI | SET k 2 | EXEC
		a: GET k
		b: GET k
		b: SELECT 2 | GET k`},
	{"select then watch", `
		a: SELECT 2
		a: WATCH k
		b: SET k 1
		a: MULTI | SET k 2 | EXEC
		b: SELECT 2
		b: GET k`},
	{"names", `
		a: CLIENT GETNAME
		a: CLIENT SETNAME alice
		b: CLIENT GETNAME
		a: CLIENT GETNAME
		a: MULTI | CLIENT GETNAME | EXEC
		a: WATCH k
		a: CLIENT GETNAME
		a: UNWATCH
		a: CLIENT SETNAME
		a: CLIENT SETNAME bob | CLIENT GETNAME
		a: RESET
		a: CLIENT GETNAME`},
	{"name set in a transaction", `
		a: MULTI
		a: CLIENT SETNAME alice
		a: EXEC
		a: CLIENT GETNAME
		b: CLIENT GETNAME`},
	{"name by hello", `
		a: HELLO 3 SETNAME alice
		a: CLIENT GETNAME
		a: HELLO 2
		a: CLIENT GETNAME`},
	{"protocol switched", `
		a: HSET h f v
		a: HELLO 3
		a: HGETALL h
		a: GET nosuch
		a: HELLO 2 | HGETALL h | HELLO 3 | HGETALL h | GET nosuch
		a: HELLO 4
		a: HGETALL h
		a: HELLO
		a: HELLO 2 NOSUCH
		a: HGETALL h`},
	{"reset", `
		a: SELECT 3
		a: HELLO 3
		a: MULTI
		a: SET k 1
		a: RESET
		a: GET k
		a: EXEC
		a: SET k zero
		b: GET k`},
	{"reset in a pipeline", `
		a: SELECT 3 | SET k three | RESET | GET k | MULTI | SET k 1 | RESET | GET k | EXEC`},
	{"reset of a subscriber", `
		a: SUBSCRIBE c
		a: RESET
		a: GET k
		b: PUBLISH c hi
		a: SUBSCRIBE c | RESET | SET k 1 | GET k`},
	{"blocking pop of what is there", `
		a: RPUSH list x y z
		a: BLPOP list 0
		a: BRPOP nosuch list 0
		a: BLMOVE list other LEFT RIGHT 0
		a: BRPOPLPUSH other list 0
		a: BLMPOP 0 2 nosuch list LEFT
		a: ZADD zset 1 a 2 b 3 c
		a: BZPOPMIN zset 0
		a: BZPOPMAX zset 0
		a: BZMPOP 0 1 zset MIN
		a: GET k`},
	{"blocking pop of what comes", `
		a: BLPOP list 0 -> 0
		?: blocked_clients:1
		b: LPUSH list x
		a: -> 1
		a: GET k`},
	{"blocking pop that times out", `
		a: BLPOP list 0.01
		a: BZPOPMIN zset 0.01
		a: BLMOVE list other LEFT LEFT 0.01
		a: XREAD BLOCK 10 STREAMS s $
		a: GET k`},
	{"blocking pop with bad arguments", `
		a: BLPOP list x
		a: BLPOP list -1
		a: BLPOP
		a: SET k 1
		a: BLPOP k 0
		a: GET k`},
	{"commands behind a blocking one", `
		a: BLPOP list 0 | SET k 1 | GET k -> 0
		?: blocked_clients:1
		b: GET k
		b: RPUSH list x y
		a: -> 3
		b: LLEN list`},
	{"blocking in a transaction", `
		a: MULTI
		a: BLPOP list 0
		a: EXEC`},
	{"two waiting clients are served in turn", `
		a: BLPOP list 0 -> 0
		?: blocked_clients:1
		b: BLPOP list 0 -> 0
		?: blocked_clients:2
		c: RPUSH list x y
		a: -> 1
		b: -> 1`},
	{"blocking stream reads", `
		a: XREAD BLOCK 0 STREAMS s $ -> 0
		?: blocked_clients:1
		b: XADD s 5-1 f v
		a: -> 1
		a: XGROUP CREATE s g $
		a: XREADGROUP GROUP g alice BLOCK 0 STREAMS s > -> 0
		?: blocked_clients:1
		b: XADD s 6-1 f v
		a: -> 1
		a: XREAD STREAMS s 0
		a: XREAD BLOCK x STREAMS s $`},
	{"unblocked by another client", `
		a: SELECT 1
		a: BLPOP list 0 -> 0
		?: blocked_clients:1
		b: LPUSH list wrong-database
		b: SELECT 1
		b: LPUSH list x
		a: -> 1`},
	{"wait", `
		a: SET k 1
		a: WAIT 0 10
		a: WAIT 1 10
		a: WAIT x 10
		a: GET k`},
	{"subscription", `
		a: SUBSCRIBE c d -> 2
		b: PUBLISH c hello
		a: -> 1
		b: PUBLISH d hello
		a: -> 1
		b: PUBLISH e hello
		a: PING
		a: PING hello
		a: GET k
		a: UNSUBSCRIBE c
		b: PUBLISH c hello
		b: PUBLISH d bye
		a: -> 1
		a: UNSUBSCRIBE
		a: GET k
		a: SET k 1`},
	{"pattern subscription", `
		a: PSUBSCRIBE c* d? -> 2
		b: PUBLISH cat meow
		a: -> 1
		b: PUBLISH do re
		a: -> 1
		b: PUBSUB NUMPAT
		a: PUNSUBSCRIBE -> 2
		b: PUBLISH cat meow
		a: PING`},
	{"sharded subscription", `
		a: SSUBSCRIBE c
		b: SPUBLISH c hello
		a: -> 1
		a: SUNSUBSCRIBE c
		b: SPUBLISH c hello
		a: PING`},
	{"both kinds of subscription", `
		a: SUBSCRIBE c
		a: PSUBSCRIBE c*
		b: PUBLISH c hello
		a: -> 2
		a: UNSUBSCRIBE c
		b: PUBLISH c hello
		a: -> 1
		a: PUNSUBSCRIBE c*
		a: PING`},
	{"unsubscribing from nothing", `
		a: UNSUBSCRIBE
		a: PUNSUBSCRIBE
		a: UNSUBSCRIBE c
		a: GET k`},
	{"subscribing twice", `
		a: SUBSCRIBE c c -> 2
		a: SUBSCRIBE c
		b: PUBLISH c hello
		a: -> 1`},
	{"subscription in a pipeline", `
		a: SET k 1 | SUBSCRIBE c | PING | UNSUBSCRIBE c | GET k
		a: GET k`},
	{"subscription in a transaction", `
		a: MULTI
		a: SUBSCRIBE c
		a: EXEC
		b: PUBLISH c hello
		a: -> 1`},
	{"replies off", `
		a: CLIENT REPLY OFF | SET k 1 | NOSUCH | CLIENT REPLY ON -> 1
		a: GET k
		a: CLIENT REPLY SKIP | SET k 2 | GET k -> 1
		a: CLIENT REPLY SKIP | NOSUCH | GET k -> 1
		a: CLIENT REPLY NOSUCH
		a: CLIENT REPLY ON
		a: GET k`},
	{"replies off around a transaction", `
		a: CLIENT REPLY OFF | MULTI | SET k 1 | EXEC | CLIENT REPLY ON -> 1
		a: GET k
		a: CLIENT REPLY SKIP | MULTI | SET k 2 | EXEC -> 2
		a: GET k`},
	{"reset after replies were skipped", `
		a: WATCH k
		a: CLIENT REPLY SKIP | RESET | GET k -> 1
		a: SSUBSCRIBE c | CLIENT REPLY SKIP | RESET | GET k -> 3
		a: CLIENT REPLY SKIP | RESET | GET k -> 1
		a: MULTI | CLIENT SETNAME x | DISCARD | CLIENT REPLY SKIP | RESET | GET k -> 4
		a: MULTI | CLIENT REPLY SKIP | RESET | GET k -> 4
		a: CLIENT REPLY OFF | MULTI | SET k 1 | RESET | GET k -> 2
		a: CLIENT REPLY OFF | RESET | GET k -> 2`},
	{"scripts", `
		a: SCRIPT LOAD return~1
		a: EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
		b: SCRIPT FLUSH
		a: EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
		a: MULTI | EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 | EXEC`},
	{"tracking", `
		a: CLIENT TRACKING ON
		a: GET k`},
	{"users", `
		a: ACL SETUSER bob on >secret ~b:* +@all
		b: AUTH bob wrong
		b: AUTH bob secret
		b: ACL WHOAMI
		b: SET b:k 1
		b: SET k 1
		b: MULTI | GET b:k | GET k | EXEC
		b: EVAL return~redis.call('GET',KEYS[1]) 1 k
		b: RESET
		b: ACL WHOAMI
		c: HELLO 3 AUTH bob secret SETNAME c
		c: ACL WHOAMI
		c: GET k
		a: ACL DELUSER bob`},
	{"watch outlives a stray exec", `
		a: WATCH k
		a: EXEC | DISCARD | MULTI extra | EXEC
		b: SET k 1
		a: MULTI | GET k | EXEC
		a: MULTI | GET k | EXEC`},
	{"half a hello", `
		a: ACL SETUSER bob on >secret ~b:* +@all
		b: HELLO 3 AUTH bob secret SETNAME b NOSUCH
		b: ACL WHOAMI
		b: CLIENT GETNAME
		c: ACL WHOAMI
		c: CLIENT GETNAME
		a: SET k 1
		b: HELLO 2
		b: ACL WHOAMI
		b: GET k
		a: ACL DELUSER bob`},
	{"keyspace notifications", `
		a: CONFIG SET notify-keyspace-events KEA
		a: SUBSCRIBE __keyevent@0__:set
		b: SET k 1
		a: -> 1
		b: CONFIG SET notify-keyspace-events ~`},
	{"quit", `
		a: SET k 1 | QUIT`},
	{"quit in a transaction", `
		a: MULTI | SET k 1 | QUIT`},
}

// TestNamesStayWithTheirClients has a client take a name, which the connection
// that it shares with others must not have.
func TestNamesStayWithTheirClients(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	direct, proxied := redis.Dial(t), proxytest.Start(t, redis.URL()).Dial(t)
	for _, command := range []string{"CLIENT SETNAME alice", "HELLO 3 SETNAME alice", "HELLO 2 SETNAME alice"} {
		proxied.Do(strings.Fields(command)...)
		await(t, "the name to be gone from the upstream", func() bool {
			return !strings.Contains(direct.Do("CLIENT", "LIST"), "alice")
		})
		if got := proxied.Do("CLIENT", "GETNAME"); got != bulk("alice") {
			t.Errorf("CLIENT GETNAME after %s = %q", command, got)
		}
		if got := proxied.Do("MULTI"); got != "+OK\r\n" {
			t.Fatalf("MULTI = %q", got)
		}
		proxied.Do("CLIENT", "GETNAME")
		if got := proxied.Do("EXEC"); got != "*1\r\n"+bulk("alice") {
			t.Errorf("CLIENT GETNAME in a transaction after %s = %q", command, got)
		}
		proxied.Do("RESET")
		await(t, "the transaction's connection to be gone", func() bool {
			return !strings.Contains(direct.Do("CLIENT", "LIST"), "alice")
		})
	}
}
