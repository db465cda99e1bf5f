package test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// pair is a Redis and a cellproxy in front of it. Both faces of the one server
// are used in turn, because two servers would order the members of sets and
// hashes differently: each has its own random hash seed.
type pair struct {
	redis *redistest.Server
	proxy *proxytest.Proxy
	admin *wire.Conn
}

// noon is when every run on a standing clock begins.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 123456789, time.UTC)

func newPair(t *testing.T, options redistest.Options) *pair {
	t.Helper()
	options.Args = append(options.Args, "--enable-debug-command", "yes", "--activerehashing", "no")
	p := &pair{redis: redistest.Start(t, options)}
	p.proxy = proxytest.Start(t, p.redis.URL())
	p.admin = p.redis.Dial(t)
	return p
}

// reset makes the server forget everything between two runs.
func (p *pair) reset(t *testing.T, options redistest.Options) {
	t.Helper()
	for _, command := range []string{
		"FLUSHALL", "FUNCTION FLUSH", "SCRIPT FLUSH", "CONFIG RESETSTAT", "CONFIG SET maxmemory 0",
		"DEBUG SET-ACTIVE-EXPIRE 0",
	} {
		if got := p.admin.Do(strings.Fields(command)...); got != "+OK\r\n" {
			t.Fatalf("%s = %q", command, got)
		}
	}
	if options.FakeClock {
		p.redis.SetClock(noon.UnixNano())
	}
}

// helloID is the one field of replies that is the connection's own.
var helloID = regexp.MustCompile(`(\$2\r\nid\r\n):\d+`)

func withoutID(reply string) string {
	return helloID.ReplaceAllString(reply, "$1:0")
}

// generated returns n random commands, a share of which is broken.
func generated(rng *rand.Rand, templates []string, n int) [][]string {
	commands := make([][]string, n)
	for i := range commands {
		args := fill(rng, templates[rng.IntN(len(templates))])
		damage := rng.IntN(40)
		if strings.HasSuffix(args[0], "SUBSCRIBE") {
			damage = -1 // with another number of channels it has another number of replies
		}
		switch damage {
		case 0:
			args = args[:len(args)-1]
		case 1:
			args = append(args, word(rng, "$value"))
		case 2:
			args[rng.IntN(len(args))] = word(rng, "$value")
		}
		if len(args) == 0 || args[0] == "" {
			args = []string{"PING"}
		}
		if rng.IntN(4) == 0 {
			args[0] = strings.ToLower(args[0])
		}
		commands[i] = args
	}
	return commands
}

// batches cuts commands into runs of random lengths up to most.
func batches(rng *rand.Rand, commands [][]string, most int) [][][]string {
	var cut [][][]string
	for len(commands) > 0 {
		n := min(1+rng.IntN(most), len(commands))
		cut = append(cut, commands[:n])
		commands = commands[n:]
	}
	return cut
}

// exchange sends batches, moving the clock between them, and returns the reply
// to each command.
func (p *pair) exchange(conn *wire.Conn, work [][][]string) []string {
	var replies []string
	clock := noon
	for _, batch := range work {
		clock = clock.Add(7 * time.Millisecond)
		p.redis.SetClock(clock.UnixNano())
		conn.Send(batch...)
		for range batch {
			replies = append(replies, withoutID(conn.Reply()))
		}
	}
	return replies
}

func TestRandomCommandsAreAnsweredAlike(t *testing.T) {
	stateful := slices.Concat(statelessCommands, repeat(sessionCommands, 8))
	for _, mode := range []struct {
		name      string
		templates []string
		protocol  string
		pipeline  int
	}{
		{"stateless RESP2 single", statelessCommands, "2", 1},
		{"stateless RESP2 pipelined", statelessCommands, "2", 200},
		{"stateless RESP3 single", statelessCommands, "3", 1},
		{"stateless RESP3 pipelined", statelessCommands, "3", 200},
		{"sessions RESP2 single", stateful, "2", 1},
		{"sessions RESP2 pipelined", stateful, "2", 200},
		{"sessions RESP3 single", stateful, "3", 1},
		{"sessions RESP3 pipelined", stateful, "3", 200},
	} {
		t.Run(mode.name, func(t *testing.T) {
			options := redistest.Options{FakeClock: true}
			p := newPair(t, options)
			rng := newRand(t)
			work := batches(rng, generated(rng, mode.templates, 4000), mode.pipeline)
			answers := func(work [][][]string) (got, want []string) {
				for _, side := range []struct {
					replies *[]string
					dial    func(testing.TB) *wire.Conn
				}{{&want, p.redis.Dial}, {&got, p.proxy.Dial}} {
					p.reset(t, options)
					conn := side.dial(t)
					conn.Do("HELLO", mode.protocol)
					*side.replies = p.exchange(conn, work)
					conn.Close()
				}
				return got, want
			}
			if got, want := answers(work); !slices.Equal(got, want) {
				work = shrink(work, func(work [][][]string) bool {
					got, want := answers(work)
					return !slices.Equal(got, want)
				})
				got, want = answers(work)
				report(t, slices.Concat(work...), got, want)
			}
		})
	}
}

// shrinkTime is for how long a failure is made smaller.
const shrinkTime = 30 * time.Second

// shrink leaves out what is not needed for the failure.
func shrink(work [][][]string, fails func([][][]string) bool) [][][]string {
	end := time.Now().Add(shrinkTime)
	work = without(end, work, fails)
	for i := range work {
		work[i] = without(end, work[i], func(batch [][]string) bool {
			return fails(slices.Concat(work[:i], [][][]string{batch}, work[i+1:]))
		})
	}
	return work
}

// without leaves out runs of elements, long ones first, as long as it fails.
func without[E any](end time.Time, list []E, fails func([]E) bool) []E {
	for length := (len(list) + 1) / 2; length > 0; length /= 2 {
		for at := 0; at+length <= len(list) && len(list) > 1 && time.Now().Before(end); {
			if fewer := slices.Concat(list[:at], list[at+length:]); fails(fewer) {
				list = fewer
			} else {
				at += length
			}
		}
	}
	return list
}

// report fails the test with commands that are answered differently.
func report(t *testing.T, commands [][]string, got, want []string) {
	t.Helper()
	for i, args := range commands {
		if got[i] != want[i] {
			t.Errorf("%.200q\n got %.500q\nwant %.500q", args, got[i], want[i])
			return
		}
		t.Logf("%.200q = %.200q", args, want[i])
	}
	t.Error("the difference comes and goes")
}

func repeat(templates []string, times int) []string {
	var all []string
	for range times {
		all = append(all, templates...)
	}
	return all
}
