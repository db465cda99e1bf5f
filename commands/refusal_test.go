package commands

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// throttle parses a CL.THROTTLE.
func throttle(t testing.TB, numbers ...int64) *Call {
	t.Helper()
	args := [][]byte{[]byte("CL.THROTTLE"), []byte("key")}
	for _, n := range numbers {
		args = append(args, strconv.AppendInt(nil, n, 10))
	}
	var call Call
	if err := clThrottle.Parse(args, &call); err != nil {
		t.Fatal(err)
	}
	return &call
}

// TestRefusalIsTheModelsReply compares refusals with the model at every
// microsecond of their interval, around the moments where replies change.
func TestRefusalIsTheModelsReply(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	given, withheld := 0, 0
	for range 3000 {
		burst := []int64{0, 3, 20}[random.IntN(3)]
		call := throttle(t, burst, 1+random.Int64N(50), 1+random.Int64N([]int64{3, 100, 1e7}[random.IntN(3)]), random.Int64N(6))
		const base = 1_700_000_000_000_000
		tat := base*1000 + random.Int64N(2*int64(call.limit.Tolerance())+1)
		if random.IntN(2) == 0 {
			tat -= tat%1000 + 1 // the last nanosecond of a microsecond
		}
		// A whole number of seconds before the TAT, or before it is far enough.
		edge := tat/1000 - random.Int64N(1e6)*1e6
		if random.IntN(2) == 0 {
			edge -= int64(call.limit.Tolerance()) / 1000
		}
		from := edge + random.Int64N(60) - 30 + random.Int64N(2)*999
		to := from + random.Int64N(40)
		state := State{Exists: true, Value: strconv.FormatInt(tat, 10)}
		got, ok := call.AppendRefusal(nil, state, from, to)
		if !ok {
			withheld++
			continue
		}
		given++
		for now := from; now <= to; now++ {
			_, want, err := call.Model(state, now)
			if err != nil || want[0] != 1 || string(AppendReply(nil, want)) != string(got) {
				t.Fatalf("seed %d: %s at %d of %d to %d: got %q, want %v, %v", seed, state.Value, now, from, to, got, want, err)
			}
		}
	}
	if given < 100 || withheld < 50 {
		t.Errorf("seed %d: %d refusals given and %d withheld", seed, given, withheld)
	}
}

func TestRefusalIsWithheld(t *testing.T) {
	call := throttle(t, 0, 1, 10) // one per 10 s
	const now, tat = 1_700_000_000_000_000, "1700000005000000000"
	for name, tt := range map[string]struct {
		call     *Call
		value    string
		from, to int64
		want     bool
	}{
		"known":                {call, tat, now, now + 900, true},
		"a second passes":      {call, tat, now, now + 1_000_000, false},
		"about to be admitted": {call, tat, now + 4_999_000, now + 5_000_000, false},
		"admitted":             {call, tat, now + 6_000_000, now + 6_000_000, false},
		"other arguments":      {throttle(t, 1, 1, 10), tat, now, now, false},
		"a peek with room":     {throttle(t, 1, 1, 10, 0), tat, now, now, false},
		"no state":             {call, "fw:1", now, now, false},
		"backwards":            {call, tat, now + 1, now, false},
	} {
		if _, ok := tt.call.AppendRefusal(nil, State{Exists: true, Value: tt.value}, tt.from, tt.to); ok != tt.want {
			t.Errorf("%s: got %v, want %v", name, ok, tt.want)
		}
	}
}

func TestRefusalDoesNotAllocate(t *testing.T) {
	call := throttle(t, 0, 1, 10)
	state := State{Exists: true, Value: "1700000005000000000"}
	reply := make([]byte, 0, 64)
	if got := testing.AllocsPerRun(100, func() {
		if _, ok := call.AppendRefusal(reply, state, 1_700_000_000_000_000, 1_700_000_000_000_900); !ok {
			t.Fatal("withheld")
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestRawName(t *testing.T) {
	for raw, want := range map[string]string{
		"*3\r\n$11\r\ncl.Throttle\r\n$3\r\nk\r\n\r\n$1\r\n1\r\n": "CL.THROTTLE k\r\n",
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n":                         "",
		"*1\r\n$11\r\nCL.THROTTLE\r\n":                           "",
		"*2\r\n$11\r\nCL.THROTTLE\r\n$9\r\nk\r\n":                "",
		"CL.THROTTLE k\r\n":                                      "",
		"":                                                       "",
	} {
		got := ""
		if command, key := RawName([]byte(raw)); command != nil {
			got = command.Name + " " + string(key)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}
