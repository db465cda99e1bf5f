package proxy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"cellproxy/backend"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// denying is a server that keeps refusals, before a Redis.
type denying struct {
	t      *testing.T
	redis  *redistest.Server
	stands bool // the clock
	server *Server
	direct *wire.Conn // to Redis
	client *wire.Conn // to the server
}

// startDenying starts a server. Its clock and that of a Redis whose clock
// stands are one.
func startDenying(t *testing.T, options redistest.Options) *denying {
	t.Helper()
	d := &denying{t: t, redis: redistest.Start(t, options), stands: options.FakeClock}
	config := backend.Config{URL: d.redis.URL(), DenyCache: true, Timeout: 5 * time.Second}
	if options.FakeClock {
		config.Now = d.redis.Clock
	}
	d.server = startServerBefore(t, config, nil)
	d.direct, d.client = d.redis.Dial(t), d.dial()
	return d
}

func (d *denying) dial() *wire.Conn {
	d.t.Helper()
	return wire.Dial(d.t, "tcp", d.server.Addr().String())
}

func (d *denying) given() int64 { return d.server.config.Backend.Denials() }

// untilGiven repeats a command until its reply did not come from upstream, and
// returns that reply. All replies must be want, if that is given.
func (d *denying) untilGiven(client *wire.Conn, want string, args ...string) string {
	d.t.Helper()
	for deadline := time.Now().Add(wire.Patience); time.Now().Before(deadline); {
		before := d.given()
		reply := client.Do(args...)
		if want != "" && reply != want {
			d.t.Fatalf("%q: got %q, want %q", args, reply, want)
		}
		if d.given() > before {
			return reply
		}
		time.Sleep(time.Millisecond)
	}
	d.t.Fatalf("%q is always asked upstream", args)
	return ""
}

// limit uses a key up until the next request for it is known to be refused
// before it is sent.
func (d *denying) limit(key string) {
	d.t.Helper()
	d.client.Do("CL.THROTTLE", key, "0", "1", "1000")
	for deadline := time.Now().Add(wire.Patience); ; time.Sleep(time.Millisecond) {
		before := d.given()
		d.client.Do("CL.THROTTLE", key, "0", "1", "1000")
		if d.given() > before {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatal("refusals are not given")
		}
		if d.stands {
			d.redis.SetClock(d.redis.Clock() + 5e6) // for the clock to prove itself
		}
	}
}

// recordedStep is what redis-cell answered at a moment.
type recordedStep struct {
	AtMicros int64    `json:"at_us"`
	Args     []string `json:"args"`
	Reply    []int64  `json:"reply"`
}

func (s recordedStep) reply() string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(s.Reply))
	for _, n := range s.Reply {
		fmt.Fprintf(&b, ":%d\r\n", n)
	}
	return b.String()
}

// TestDenialsAreThoseOfRedisCell replays what was recorded from redis-cell.
// Every refusal is repeated until it has not come from upstream.
func TestDenialsAreThoseOfRedisCell(t *testing.T) {
	d := startDenying(t, redistest.Options{FakeClock: true})
	d.limit("first")
	file, err := os.Open("../commands/testdata/redis-cell.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	steps, denied := 0, 0
	for sequences := json.NewDecoder(file); sequences.More(); {
		var sequence []recordedStep
		if err := sequences.Decode(&sequence); err != nil {
			t.Fatal(err)
		}
		d.client.Do("FLUSHALL")
		for _, step := range sequence {
			d.redis.SetClock(step.AtMicros * 1000)
			if got, want := d.client.Do(step.Args...), step.reply(); got != want {
				t.Fatalf("%q at %d µs: got %q, want %q", step.Args, step.AtMicros, got, want)
			}
			steps++
			if step.Reply[0] == 1 {
				d.untilGiven(d.client, step.reply(), step.Args...)
				denied++
			}
		}
	}
	if denied < 500 {
		t.Errorf("only %d of %d steps were refused", denied, steps)
	}
}

const (
	refused  = "*5\r\n:1\r\n:1\r\n:0\r\n"
	admitted = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1000\r\n"
)

// TestDenialsEndWithAChange changes a key that is over its limit through the
// server, and asks at once, as another client.
func TestDenialsEndWithAChange(t *testing.T) {
	d := startDenying(t, redistest.Options{})
	for name, change := range map[string][]string{
		"DEL":             {"DEL k"},
		"SET":             {"SET k 1"},
		"RENAME":          {"SET other 1", "RENAME other k"},
		"FLUSHDB":         {"FLUSHDB"},
		"FLUSHALL":        {"FLUSHALL"},
		"SWAPDB":          {"SWAPDB 0 5"},
		"PEXPIREAT":       {"PEXPIREAT k 1"},
		"EVAL":            {"EVAL return(redis.call('DEL','k')) 0"},
		"transaction":     {"MULTI", "DEL k", "EXEC"},
		"blocking":        {"RPUSH l 1", "DEL k", "BLMOVE l k LEFT LEFT 1", "DEL k"},
		"other database":  {"SELECT 3", "EVAL redis.call('SELECT',0)return(redis.call('DEL','k')) 0"},
		"protocol 3":      {"HELLO 3", "DEL k"},
		"wire":            {"HELLO 3", "SUBSCRIBE c", "DEL k"},
		"after a wire":    {"SUBSCRIBE c", "RESET", "DEL k"},
		"limiter":         {"CL.THROTTLE k 0 1 1000 -1"},
		"in transaction":  {"MULTI", "CL.THROTTLE k 0 1 1000 -1", "EXEC"},
		"before":          {"CL.THROTTLE k 0 1 1000", "CL.THROTTLE k 1 1 1000", "DEL k"},
		"another limiter": {"DEL k", "TB.ACQUIRE k 1 1 1000", "TB.ACQUIRE k 1 1 1000 -1"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				d.client.Do("FLUSHALL")
				d.limit("k")
				changer := d.dial()
				for _, command := range change {
					if reply := changer.Do(strings.Fields(command)...); reply[0] == '-' {
						t.Fatalf("%s: %q", command, reply)
					}
				}
				if got := d.client.Do("CL.THROTTLE", "k", "0", "1", "1000"); got != admitted {
					t.Fatalf("got %q, want it to be admitted", got)
				}
				if got := d.client.Do("CL.THROTTLE", "k", "0", "1", "1000"); !strings.HasPrefix(got, refused) {
					t.Fatalf("got %q, want it to be refused", got)
				}
				changer.Close()
			}
		})
	}
}

// TestDenialsEndWithAChangeFromOutside changes the key not through the server,
// which so learns of it a little later.
func TestDenialsEndWithAChangeFromOutside(t *testing.T) {
	d := startDenying(t, redistest.Options{})
	for _, change := range []string{"DEL k", "FLUSHALL", "PEXPIRE k 20"} {
		d.limit("k")
		d.direct.Do(strings.Fields(change)...)
		for deadline := time.Now().Add(wire.Patience); d.client.Do("CL.THROTTLE", "k", "0", "1", "1000") != admitted; {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not seen", change)
			}
		}
	}
}

// TestDenialsOutliveNothing sets the time to where something ends.
func TestDenialsOutliveNothing(t *testing.T) {
	d := startDenying(t, redistest.Options{FakeClock: true})
	d.limit("k")
	throttle := []string{"CL.THROTTLE", "k", "0", "1", "1000"}
	for _, tt := range []struct {
		before []string // before that
		pass   time.Duration
		given  bool
		want   string
	}{
		{[]string{"PING"}, 190 * time.Millisecond, true, refused},
		{[]string{"PING"}, 210 * time.Millisecond, false, refused}, // unheard for too long
		{[]string{"PEXPIRE", "k", "50"}, 45 * time.Millisecond, true, refused},
		{[]string{"PEXPIRE", "k", "50"}, 51 * time.Millisecond, false, admitted},
		{[]string{"PING"}, 1000 * time.Second, false, admitted},
	} {
		d.client.Do("FLUSHALL")
		d.redis.SetClock(d.redis.Clock() + 3000e9)
		d.client.Do(throttle...) // the numbers of its refusals change each second from now
		d.client.Do(tt.before...)
		d.client.Do("SET", "other", "1") // has the upstream asked for the time
		d.untilGiven(d.client, "", throttle...)
		d.redis.SetClock(d.redis.Clock() + int64(tt.pass))
		before := d.given()
		got := d.client.Do(throttle...)
		if given := d.given() > before; !strings.HasPrefix(got, tt.want) || given != tt.given {
			t.Errorf("%v after %s: got %q, given %v, want %q, %v", tt.pass, tt.before, got, given, tt.want, tt.given)
		}
	}
}

// TestDenialsKeepOrder sends the same random pipelines to a server that keeps
// refusals and to one that does not, and wants the same replies.
func TestDenialsKeepOrder(t *testing.T) {
	d := startDenying(t, redistest.Options{FakeClock: true})
	plain := startServerBefore(t, backend.Config{URL: d.redis.URL(), Timeout: 5 * time.Second}, nil)
	asking, wanted := d.client, wire.Dial(t, "tcp", plain.Addr().String())
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	d.limit("first")
	for range 1500 {
		var pipeline []string
		for range 1 + random.IntN(8) {
			pipeline = append(pipeline, randomCommand(random))
		}
		for _, side := range []struct {
			*wire.Conn
			prefix string
		}{{asking, "a"}, {wanted, "b"}} {
			var commands [][]string
			for _, command := range pipeline {
				commands = append(commands, strings.Fields(strings.ReplaceAll(command, "key", side.prefix)))
			}
			side.Send(commands...)
		}
		got, want := asking.Replies(len(pipeline)), wanted.Replies(len(pipeline))
		for i := range pipeline {
			if got[i] != want[i] {
				t.Fatalf("seed %d: %q\n got %q\nwant %q", seed, pipeline, got, want)
			}
		}
		if random.IntN(8) == 0 {
			d.redis.SetClock(d.redis.Clock() + random.Int64N(100e6))
		}
	}
	t.Logf("%d refusals were given", d.given())
	if given := d.given(); given < 100 {
		t.Errorf("seed %d: only %d refusals were given", seed, given)
	}
}

// randomCommand is mostly a limiter command that is refused.
func randomCommand(random *rand.Rand) string {
	key := fmt.Sprintf("key%d", random.IntN(3))
	switch random.IntN(40) {
	case 0:
		return "DEL " + key
	case 1:
		return "GET " + key
	case 2:
		return "PEXPIRE " + key + " 60"
	case 3:
		return "SET " + key + " 1"
	case 4:
		return "EVAL return(redis.call('DEL',KEYS[1])) 1 " + key
	case 5:
		return "CL.THROTTLE " + key + " 2 1 50 -1"
	case 6:
		return "CL.THROTTLE " + key + " 2 1 50 0"
	case 7:
		return "CL.THROTTLE " + key + " 9 1 50 2"
	case 8:
		return "CL.THROTTLE " + key + " 9 x 50 2"
	}
	return "CL.THROTTLE " + key + " 2 1 50 " + fmt.Sprint(1+random.IntN(2))
}

// TestDenialsHonourRights asks as users who may not.
func TestDenialsHonourRights(t *testing.T) {
	d := startDenying(t, redistest.Options{})
	d.direct.Do("ACL", "SETUSER", "alice", "on", ">secret", "+@all", "~a:*")
	throttle := func(key string) []string { return []string{"CL.THROTTLE", key, "0", "1", "1000"} }
	d.limit("a:k")
	d.limit("b:k")
	alice := d.dial()
	if got := alice.Do("AUTH", "alice", "secret"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if got := d.untilGiven(alice, "", throttle("a:k")...); !strings.HasPrefix(got, refused) {
		t.Errorf("got %q", got)
	}
	if got := alice.Do(throttle("b:k")...); !strings.HasPrefix(got, "-NOPERM") {
		t.Errorf("another's key: got %q", got)
	}
	for range 10 {
		d.client.Do("CL.THROTTLE", "a:j", "0", "1", "1000")
		d.untilGiven(alice, "", throttle("a:j")...)
		d.client.Do("ACL", "SETUSER", "alice", "resetkeys")
		for range 20 { // until all is known that came before
			if got := alice.Do(throttle("a:j")...); !strings.HasPrefix(got, "-NOPERM") {
				t.Errorf("a key that she may not touch any more: got %q", got)
			}
		}
		if got := alice.Do(throttle("a:k")...); !strings.HasPrefix(got, "-NOPERM") {
			t.Errorf("another: got %q", got)
		}
		d.client.Do("ACL", "SETUSER", "alice", "~a:*")
		d.untilGiven(alice, "", throttle("a:k")...)
	}
}

// TestDenialsAreOfOneDatabase asks in another, and when it has been swapped for
// another.
func TestDenialsAreOfOneDatabase(t *testing.T) {
	d := startDenying(t, redistest.Options{})
	d.limit("k")
	other := d.dial()
	other.Do("SELECT", "7")
	if got := other.Do("CL.THROTTLE", "k", "0", "1", "1000"); got != admitted {
		t.Errorf("got %q", got)
	}
	if got := d.untilGiven(other, "", "CL.THROTTLE", "k", "0", "1", "1000"); !strings.HasPrefix(got, refused) {
		t.Errorf("got %q", got)
	}
	d.limit("k")
	d.client.Do("SWAPDB", "0", "5")
	d.limit("another")
	if got := d.client.Do("CL.THROTTLE", "k", "0", "1", "1000"); got != admitted {
		t.Errorf("in a database that was swapped: got %q", got)
	}
}

// TestDenialsEndWithTheirConnection cuts the connection that would tell of
// changes.
func TestDenialsEndWithTheirConnection(t *testing.T) {
	d := startDenying(t, redistest.Options{})
	for range 2 {
		d.limit("k")
		killed := 0
		for _, line := range strings.Split(d.direct.Do("CLIENT", "LIST"), "\n") {
			id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			if strings.Contains(rest, " flags=t") {
				d.direct.Do("MULTI")
				d.direct.Do("CLIENT", "KILL", "ID", id)
				d.direct.Do("DEL", "k")
				d.direct.Do("EXEC")
				killed++
			}
		}
		if killed != 1 {
			t.Fatalf("%d connections track keys, want 1", killed)
		}
		for deadline := time.Now().Add(wire.Patience); d.client.Do("CL.THROTTLE", "k", "0", "1", "1000") != admitted; {
			if time.Now().After(deadline) {
				t.Fatal("refused for ever")
			}
		}
	}
}

// TestDenialsNeedTracking stands before upstreams that will not tell of changes.
func TestDenialsNeedTracking(t *testing.T) {
	for name, rights := range map[string]string{"tracking": "-client", "reading": "-pttl"} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Start(t, redistest.Options{})
			redis.Dial(t).Do("ACL", "SETUSER", "alice", "on", ">secret", "allkeys", "+@all", rights)
			url := strings.Replace(redis.URL(), "unix://", "unix://alice:secret@", 1)
			server := startServerBefore(t, backend.Config{URL: url, DenyCache: true}, nil)
			client := wire.Dial(t, "tcp", server.Addr().String())
			client.Do("CL.THROTTLE", "k", "0", "1", "1000")
			for deadline := time.Now().Add(500 * time.Millisecond); time.Now().Before(deadline); {
				if got := client.Do("CL.THROTTLE", "k", "0", "1", "1000"); !strings.HasPrefix(got, refused) {
					t.Fatalf("got %q", got)
				}
			}
			if given := server.config.Backend.Denials(); given > 0 {
				t.Errorf("%d refusals were given", given)
			}
		})
	}
}

// TestDenialsLeaveNoGoroutine counts goroutines after the clients that were of
// many users and databases have gone.
func TestDenialsLeaveNoGoroutine(t *testing.T) {
	d := startDenying(t, redistest.Options{})
	d.limit("k")
	before := runtime.NumGoroutine()
	for db := range 8 {
		c := d.dial()
		c.Do("SELECT", fmt.Sprint(1+db))
		c.Do("CL.THROTTLE", "k", "0", "1", "1000")
		d.untilGiven(c, "", "CL.THROTTLE", "k", "0", "1", "1000")
		c.Close()
	}
	for deadline := time.Now().Add(wire.Patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		d.server.config.Backend.CloseIdle()
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestDenialsAreSilentWhenMuted sees that CLIENT REPLY holds for them too.
func TestDenialsAreSilentWhenMuted(t *testing.T) {
	d := startDenying(t, redistest.Options{})
	d.limit("k")
	throttle := []string{"CL.THROTTLE", "k", "0", "1", "1000"}
	d.client.Send([]string{"CLIENT", "REPLY", "SKIP"}, throttle, []string{"PING"}, []string{"CLIENT", "REPLY", "OFF"}, throttle,
		[]string{"CLIENT", "REPLY", "ON"}, throttle)
	got := d.client.Replies(3)
	if got[0] != "+PONG\r\n" || got[1] != "+OK\r\n" || !strings.HasPrefix(got[2], refused) {
		t.Errorf("got %q", got)
	}
}
