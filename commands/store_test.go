package commands

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// someMicros is the moment at which clocked stores begin.
const someMicros = int64(1_900_000_000_123_456)

// store is a server that runs scripts, whose keys do not expire by themselves:
// its own clock stands still.
type store struct {
	*wire.Conn
	load func() // makes all scripts known
}

// stores are the servers that the scripts must run on.
var stores = map[string]func(testing.TB) *store{
	"redis":     redisStore,
	"miniredis": miniredisStore,
}

func redisStore(t testing.TB) *store {
	t.Helper()
	server := redistest.Start(t, redistest.Options{FakeClock: true})
	server.SetClock(someMicros * 1000)
	return newStore(server.Dial(t))
}

func miniredisStore(t testing.TB) *store {
	t.Helper()
	return newStore(wire.Dial(t, "tcp", miniredis.RunT(t).Addr()))
}

func newStore(conn *wire.Conn) *store {
	s := &store{Conn: conn}
	s.load = func() {
		for _, script := range Scripts() {
			if got, want := s.Do("SCRIPT", "LOAD", script.Source), bulk(script.SHA1); got != want {
				panic(fmt.Sprintf("SCRIPT LOAD = %q, want %q", got, want))
			}
		}
	}
	s.load()
	return s
}

// onStores runs a test on each kind of store.
func onStores(t *testing.T, test func(*testing.T, *store)) {
	t.Helper()
	for name, start := range stores {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// at returns the call as EVALSHA with the moment as its last argument.
func at(call *Call, nowMicros int64) []byte {
	clocked := *call
	clocked.argv = append(call.argv[:len(call.argv):len(call.argv)], nowMicros)
	return clocked.AppendEvalSHA(nil)
}

// run runs a call's script at a moment and returns the raw reply.
func (s *store) run(t testing.TB, call *Call, nowMicros int64) string {
	t.Helper()
	if _, err := s.Write(at(call, nowMicros)); err != nil {
		t.Fatal(err)
	}
	return s.Reply()
}

// step is a command at a moment.
type step struct {
	nowMicros int64
	args      []string
}

func (s step) String() string {
	return fmt.Sprintf("%q at %d", s.args, s.nowMicros)
}

// outcome is what a step answered and left.
type outcome struct {
	reply string // raw
	value string // raw reply to GET
	pttl  string // raw reply to PTTL
}

// modelled runs steps on the models. The keys' lives do not end by themselves,
// as in a store: a PTTL is what the last change set.
func modelled(t testing.TB, steps []step) []outcome {
	t.Helper()
	states := make(map[string]State)
	ttls := make(map[string]int64)
	outcomes := make([]outcome, len(steps))
	for i, s := range steps {
		call, key := parse(t, s.args...), s.args[1]
		before := states[key]
		after, reply, err := call.Model(before, s.nowMicros)
		if err != nil && after != before {
			t.Fatalf("%v: error %v, and the state %+v became %+v", s, err, before, after)
		}
		if after != before {
			states[key], ttls[key] = after, after.ExpiresAt-s.nowMicros/1000
		}
		outcomes[i] = outcome{reply: rawReply(reply, err), value: "$-1\r\n", pttl: ":-2\r\n"}
		if after.Exists {
			outcomes[i].value, outcomes[i].pttl = bulk(after.Value), fmt.Sprintf(":%d\r\n", ttls[key])
		}
	}
	return outcomes
}

// scripted runs steps on a store, many at a time.
func scripted(t testing.TB, s *store, steps []step) []outcome {
	t.Helper()
	const batch = 500
	outcomes := make([]outcome, 0, len(steps))
	for len(steps) > 0 {
		some := steps[:min(batch, len(steps))]
		steps = steps[len(some):]
		var b []byte
		for _, s := range some {
			b = append(b, at(parse(t, s.args...), s.nowMicros)...)
			b = append(b, wire.Encode([]string{"GET", s.args[1]}, []string{"PTTL", s.args[1]})...)
		}
		written := make(chan error, 1)
		go func() {
			_, err := s.Write(b)
			written <- err
		}()
		for range some {
			outcomes = append(outcomes, outcome{reply: s.Reply(), value: s.Reply(), pttl: s.Reply()})
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
	return outcomes
}

// agree runs steps on the scripts and on the models and compares what comes of
// them.
func agree(t *testing.T, s *store, steps []step) {
	t.Helper()
	s.Do("FLUSHALL")
	want := modelled(t, steps)
	for i, got := range scripted(t, s, steps) {
		if got == want[i] {
			continue
		}
		var before outcome
		for j := range i {
			if steps[j].args[1] == steps[i].args[1] {
				before = want[j]
			}
		}
		t.Fatalf("step %d: %v\n  after %q\nscript %q\n model %q", i, steps[i], before, got, want[i])
	}
}

// randomLimit draws a command's parameters: a function that draws the words
// after the key from then on, and the pace at which to go.
type randomLimit func(r *rand.Rand) (words func() []string, paceMicros int64)

// randomSteps are count valid steps of a command, with parameters that change
// now and then, on one key after the other.
func randomSteps(t *testing.T, count int, command string, draw randomLimit) []step {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	now := someMicros
	key, left := 0, 0
	var words func() []string
	var pace int64
	steps := make([]step, 0, count)
	for len(steps) < count {
		if left--; left < 0 {
			key, left = key+1, r.IntN(60)
			words, pace = draw(r)
		} else if r.IntN(20) == 0 {
			words, pace = draw(r) // other parameters on the same key
		}
		pace = min(max(pace, 0), 1<<52) // drawn parameters need not be valid
		if now += randomPause(r, pace); now < 1e15 || now > 8e15 {
			now = someMicros
		}
		args := append([]string{command, fmt.Sprintf("k%d\xff", key)}, words()...)
		if _, err := tryParse(args...); err == nil {
			steps = append(steps, step{now, args})
		}
	}
	return steps
}

// agreeOnRandomSteps has scripts and models take the same random steps.
func agreeOnRandomSteps(t *testing.T, command string, draw randomLimit) {
	t.Helper()
	for name, count := range map[string]int{"redis": 100_000, "miniredis": 5_000} {
		t.Run(command+" on "+name, func(t *testing.T) {
			t.Parallel()
			agree(t, stores[name](t), randomSteps(t, count, command, draw))
		})
	}
}

// upTo draws a number from 0 to less than most, small ones rather than large.
func upTo(r *rand.Rand, most int64) int64 { return r.Int64N(1 + r.Int64N(most)) }

// randomQuantity draws the word for a quantity, or none.
func randomQuantity(r *rand.Rand, limit int64) []string {
	switch r.IntN(16) {
	case 0, 1:
		return []string{"0"}
	case 2:
		return []string{fmt.Sprint(-r.Int64N(limit + 2))}
	case 3:
		return []string{fmt.Sprint(limit - 1 + r.Int64N(4))}
	case 4:
		return []string{[]string{"9223372036854775807", "-9223372036854775808", "1000000000000", "-1000000000000"}[r.IntN(4)]}
	case 5, 6, 7, 8:
		return []string{fmt.Sprint(r.Int64N(limit/2 + 2))}
	}
	return nil
}

// randomPause is usually less than pace, at times 0 or a step back.
func randomPause(r *rand.Rand, pace int64) int64 {
	switch r.IntN(12) {
	case 0:
		return -r.Int64N(pace + 1)
	case 1, 2, 3:
		return 0
	case 4:
		return r.Int64N(20*pace + 1)
	}
	return r.Int64N(pace + 1)
}

// rawReply is a model's answer as the store's bytes.
func rawReply(numbers []int64, err error) string {
	if err != nil {
		return "-" + err.Error() + "\r\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(numbers))
	for _, n := range numbers {
		fmt.Fprintf(&b, ":%d\r\n", n)
	}
	return b.String()
}

func bulk(s string) string {
	return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)
}

func byteWords(args []string) [][]byte {
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = []byte(arg)
	}
	return words
}

func intText(n int64) string {
	return strconv.FormatInt(n, 10)
}

func tryParse(args ...string) (*Call, error) {
	words := byteWords(args)
	call := new(Call)
	return call, Lookup(words[0]).Parse(words, call)
}

func parse(t testing.TB, args ...string) *Call {
	t.Helper()
	call, err := tryParse(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return call
}
