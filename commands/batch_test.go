package commands

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// standingStores are stores whose own clock stands at someMicros.
var standingStores = map[string]func(*testing.T) *store{
	"redis": func(t *testing.T) *store {
		server := redistest.Start(t, redistest.Options{FakeClock: true})
		server.SetClock(someMicros * 1000)
		return newStore(server.Dial(t))
	},
	"miniredis": func(t *testing.T) *store {
		server := miniredis.RunT(t)
		server.SetTime(time.UnixMicro(someMicros))
		return newStore(wire.Dial(t, "tcp", server.Addr()))
	},
}

// TestBatchesAreManyRuns puts random calls on few keys together, some of which
// hold what is no state, and compares with the same calls one by one.
func TestBatchesAreManyRuns(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, start := range standingStores {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			together, alone := start(t), start(t)
			for _, command := range All() {
				together.Do("SCRIPT", "LOAD", command.Script.Batch.Source)
				for range 200 {
					calls := make([]*Call, 2+r.IntN(15))
					for i := range calls {
						words := example(command, fmt.Sprint(command.Name, "\x00", r.IntN(9)))
						calls[i] = parse(t, words...)
					}
					for _, s := range []*store{together, alone} {
						s.Do("SET", command.Name+"\x000", "nonsense")
						s.Do("LPUSH", command.Name+"\x001", "a")
					}
					want := fmt.Sprintf("*%d\r\n", len(calls))
					for _, call := range calls {
						alone.Write(call.AppendEvalSHA(nil))
						want += alone.Reply()
					}
					together.Write(batched(calls))
					if got := together.Reply(); got != want {
						t.Fatalf("%s:\n got %q\nwant %q", command.Name, got, want)
					}
				}
				for n := range 9 {
					key := fmt.Sprint(command.Name, "\x00", n)
					if got, want := together.Do("GET", key), alone.Do("GET", key); got != want {
						t.Errorf("%s left %q, want %q", command.Name, got, want)
					}
				}
			}
		})
	}
}

// batched puts calls of one command together.
func batched(calls []*Call) []byte {
	var keys, arguments []byte
	var run Run
	for _, call := range calls {
		_, run = call.AppendRun(nil)
		keys = append(keys, run.Key...)
		arguments = append(arguments, run.Arguments...)
	}
	return append(append(run.Script.AppendRuns(nil, len(calls), run.Count), keys...), arguments...)
}

// TestRunOfOne sees that the parts of a run make what AppendEvalSHA appends.
func TestRunOfOne(t *testing.T) {
	for _, command := range All() {
		call := parse(t, example(command, "k\r\n\xff")...)
		whole, run := call.AppendRun([]byte("before"))
		want := string(call.AppendEvalSHA(nil))
		if got, ok := strings.CutPrefix(string(whole), "before"); !ok || got != want {
			t.Errorf("%s: got %q, want %q", command.Name, whole, want)
		}
		if got := string(run.Script.AppendRuns(nil, 1, run.Count)) + string(run.Key) + string(run.Arguments); got != want {
			t.Errorf("%s: parts %q, want %q", command.Name, got, want)
		}
	}
}
