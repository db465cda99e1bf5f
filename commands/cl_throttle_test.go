package commands

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// recordedStep is what redis-cell 0.5.0 answered and stored at a moment.
type recordedStep struct {
	AtMicros int64    `json:"at_us"`
	Args     []string `json:"args"`
	Reply    []int64  `json:"reply"`
	Value    *string  `json:"value"` // nil: no such key
}

func recordedSequences(t *testing.T) [][]recordedStep {
	t.Helper()
	file, err := os.Open("testdata/redis-cell.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var sequences [][]recordedStep
	for lines := json.NewDecoder(bufio.NewReader(file)); lines.More(); {
		var sequence []recordedStep
		if err := lines.Decode(&sequence); err != nil {
			t.Fatal(err)
		}
		sequences = append(sequences, sequence)
	}
	if len(sequences) < 100 {
		t.Fatalf("only %d sequences", len(sequences))
	}
	return sequences
}

func TestModelAnswersAsRecorded(t *testing.T) {
	for i, sequence := range recordedSequences(t) {
		states := make(map[string]State)
		for j, step := range sequence {
			key := step.Args[1]
			state := states[key]
			if state.Expired(step.AtMicros) {
				state = State{}
			}
			state, reply, err := parse(t, step.Args...).Model(state, step.AtMicros)
			if err != nil || !slices.Equal(reply, step.Reply) {
				t.Fatalf("sequence %d step %d: %q at %d: got %d, %v, want %d", i, j, step.Args, step.AtMicros, reply, err, step.Reply)
			}
			if got := stored(state); !step.left(got) {
				t.Fatalf("sequence %d step %d: %q at %d: left %q, want %s", i, j, step.Args, step.AtMicros, got, step.wanted())
			}
			states[key] = state
		}
	}
}

// stored is a state as the raw reply to GET.
func stored(state State) string {
	if !state.Exists {
		return "$-1\r\n"
	}
	return bulk(state.Value)
}

// left reports whether a raw reply to GET is what redis-cell left. Where it left
// nothing there may be a TAT that has come, or will within the millisecond that
// redis-cell cuts off its lifetime.
func (r recordedStep) left(value string) bool {
	if r.Value != nil {
		return value == bulk(*r.Value)
	}
	var size, tat int64
	n, _ := fmt.Sscanf(value, "$%d\r\n%d", &size, &tat)
	return n == 1 || n == 2 && tat < (r.AtMicros+1000)*1000
}

// TestScriptAnswersAsRecorded replays on a Redis whose clock is set, so that
// the script asks it for the time and its keys expire by it.
func TestScriptAnswersAsRecorded(t *testing.T) {
	server := redistest.Start(t, redistest.Options{FakeClock: true})
	conn := server.Dial(t)
	for i, sequence := range recordedSequences(t) {
		conn.Do("FLUSHALL")
		for j, step := range sequence {
			server.SetClock(step.AtMicros * 1000)
			call := parse(t, step.Args...)
			if _, err := conn.Write(append(call.AppendEval(nil), wire.Encode([]string{"GET", step.Args[1]})...)); err != nil {
				t.Fatal(err)
			}
			if got, want := conn.Reply(), rawReply(step.Reply, nil); got != want {
				t.Fatalf("sequence %d step %d: %q at %d: got %q, want %q", i, j, step.Args, step.AtMicros, got, want)
			}
			if got := conn.Reply(); !step.left(got) {
				t.Fatalf("sequence %d step %d: %q at %d: left %q, want %s", i, j, step.Args, step.AtMicros, got, step.wanted())
			}
		}
	}
}

func (r recordedStep) wanted() string {
	if r.Value == nil {
		return "none"
	}
	return *r.Value
}

func TestParseCLThrottle(t *testing.T) {
	const (
		arity    = "ERR wrong number of arguments for 'cl.throttle' command"
		number   = "ERR value is not an integer or out of range"
		overflow = "ERR value is out of range, times must fit 64-bit nanoseconds"
		zero     = "ERR Cell error: Store error: Zero rates are not supported"
		burst    = "ERR max_burst must be between 0 and 9007199254740991"
		count    = "ERR count must be between 1 and 9223372036854775807"
		period   = "ERR period must be between 1 and 9223372036854775807"
	)
	for args, want := range map[string]string{
		"k 15 30 60":                         "",
		"k 15 30 60 0":                       "",
		"k 15 30 60 -5":                      "",
		"k +15 030 60 +1":                    "", // redis-cell takes them
		"k 0 1 1":                            "",
		"k 9007199254740991 1000000000 1":    "",
		"k 0 1 9223372036":                   "",
		"k 0 1000000 9223372036854775807":    overflow,
		"k 0 9007199254740992 9007199254":    "", // period in ns beyond int64, interval not
		"":                                   arity,
		"k":                                  arity,
		"k 15 30":                            arity,
		"k 15 30 60 1 1":                     arity,
		"k x x x x x":                        arity,
		"k x 30 60":                          number,
		"k 15 3.0 60":                        number,
		"k 15 30 1e3":                        number,
		"k 15 30 0x10":                       number,
		"k 15 30 1_0":                        number,
		"k 15 30 60 +":                       number,
		"k 15 30 60 9223372036854775808":     number,
		"k -1 30 60":                         burst,
		"k 9007199254740992 1000000000 1":    burst,
		"k 9223372036854775807 30 60":        burst,
		"k 15 -30 60":                        count,
		"k 15 30 -60":                        period,
		"k 15 0 60":                          zero,
		"k 15 30 0":                          zero,
		"k 15 1000000001 1":                  zero,
		"k 0 1 9223372037":                   overflow,
		"k 1 1 9223372036":                   overflow,
		"k 9223372036 1 1":                   overflow,
		"k 15 30 60 9223372036854775807":     overflow,
		"k 15 30 60 -9223372036854775808":    overflow,
		"k 15 30 9223372036854775807":        overflow,
		"k 0 1000000000 1 " + minInt64Digits: overflow,
	} {
		_, err := tryParse(append([]string{"CL.THROTTLE"}, strings.Fields(args)...)...)
		if got := errorText(err); got != want {
			t.Errorf("%q: got error %q, want %q", args, got, want)
		}
	}
}

const minInt64Digits = "-9223372036854775808"

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestCellInterval compares with what redis-cell computes, in floating point:
// figures of its expression ((ns as f64) / (n as f64)) as i64.
func TestCellInterval(t *testing.T) {
	for _, test := range []struct{ count, period, want int64 }{
		{30, 60, 2e9},
		{97, 60, 618556701},
		{1000000000, 1, 1},
		{3, 31536000, 10512000000000000},
		{7, 31536000, 4505142857142857},
		{7, 1000000000, 142857142857142864}, // truly ...857
		{97, 9223372036, 95086309649484544}, // truly ...536
		{2, 9223372036854775807, 0},
		{1 << 62, math.MaxInt64, 2e9},
	} {
		got, err := cellInterval(test.count, test.period)
		if int64(got) != test.want || (err == nil) != (test.want != 0) {
			t.Errorf("%d per %d s: got %d ns, %v, want %d", test.count, test.period, got, err, test.want)
		}
	}
}

func TestCellSeconds(t *testing.T) {
	for nanos, want := range map[int64]int64{
		-1: -1, 0: 0, 999_999: 0, 1_000_000: 1, 999_999_999: 1,
		1_000_000_000: 1, 1_000_999_999: 1, 1_001_000_000: 2,
		31536000_999_999_999: 31536002, // 31536000.999999999 as a double is 31536001
		31536000_999_999_990: 31536001,
		math.MaxInt64:        9223372037,
	} {
		if got := cellSeconds(time.Duration(nanos)); got != want {
			t.Errorf("%d ns: got %d s, want %d", nanos, got, want)
		}
	}
}

// TestCLThrottleSteps has the inputs that redis-cell crashes on or answers with
// nonsense, and the edges, on the model and on the scripts.
func TestCLThrottleSteps(t *testing.T) {
	now := someMicros
	tat := func(micros, nanos int64) string { return strconv.FormatInt((now+micros)*1000+nanos, 10) }
	for name, test := range map[string][]struct {
		afterMicros int64
		words       string
		want        []int64
		wantValue   string // "" for no key
	}{
		"negative quantity": {
			{0, "15 30 60 5", []int64{0, 16, 11, -1, 10}, tat(10e6, 0)},
			{0, "15 30 60 -3", []int64{0, 16, 14, -1, 4}, tat(4e6, 0)},
			{0, "15 30 60 -2", []int64{0, 16, 16, -1, 0}, ""},
			{0, "15 30 60 -1", []int64{0, 16, 16, -1, 0}, ""},
			{0, "15 30 60 1", []int64{0, 16, 15, -1, 2}, tat(2e6, 0)},
			{0, "15 30 60 -100", []int64{0, 16, 16, -1, 0}, ""},
			{0, "15 30 60 -153722867", []int64{0, 16, 16, -1, 0}, ""},
		},
		"peeks": {
			{0, "15 30 60 0", []int64{0, 16, 16, -1, 0}, tat(0, 0)},
			{5, "15 30 60 0", []int64{0, 16, 16, -1, 0}, tat(5, 0)},
			{5, "15 30 60 16", []int64{0, 16, 0, -1, 32}, tat(32e6+5, 0)},
			{9, "15 30 60 0", []int64{0, 16, 0, -1, 32}, tat(32e6+5, 0)},
			{9, "0 30 60 0", []int64{1, 1, 0, 30, 32}, tat(32e6+5, 0)},
		},
		"more than the limit": {
			{0, "15 30 60 17", []int64{1, 16, 16, -1, 0}, ""},
			{0, "15 30 60 16", []int64{0, 16, 0, -1, 32}, tat(32e6, 0)},
			{0, "15 30 60 17", []int64{1, 16, 0, -1, 32}, tat(32e6, 0)},
			{0, "15 30 60 153722867", []int64{1, 16, 0, -1, 32}, tat(32e6, 0)},
		},
		"exact expiry": {
			{0, "0 1 1", []int64{0, 1, 0, -1, 1}, tat(1e6, 0)},
			{1e6 - 1, "0 1 1", []int64{1, 1, 0, 0, 0}, tat(1e6, 0)},
			{1e6, "0 1 1", []int64{0, 1, 0, -1, 1}, tat(2e6, 0)},
		},
		"clock stepping back": {
			{0, "1 1 1 2", []int64{0, 2, 0, -1, 2}, tat(2e6, 0)},
			{-5e6, "1 1 1", []int64{1, 2, 0, 6, 7}, tat(2e6, 0)},
			{-5e6, "1 1 1 -1", []int64{1, 2, 0, 4, 7}, tat(2e6, 0)},
			{-5e6, "1 1 1 -5", []int64{0, 2, 0, -1, 2}, tat(-3e6, 0)},
		},
		"200 ns interval": {
			{0, "9 5000000 1", []int64{0, 10, 9, -1, 0}, tat(0, 200)},
			{0, "9 5000000 1", []int64{0, 10, 8, -1, 0}, tat(0, 400)},
			{1, "9 5000000 1", []int64{0, 10, 9, -1, 0}, tat(1, 200)},
			{1, "9 5000000 1 9", []int64{0, 10, 0, -1, 0}, tat(3, 0)},
			{1, "9 5000000 1", []int64{1, 10, 0, 0, 0}, tat(3, 0)},
		},
		"1 ns interval and most burst": {
			{0, "9007199254740991 1000000000 1", []int64{0, 1 << 53, 1<<53 - 1, -1, 0}, tat(0, 1)},
			{0, "9007199254740991 1000000000 1 9007199254740991", []int64{0, 1 << 53, 0, -1, 9007200}, tat(9007199254740, 992)},
			{7, "9007199254740991 1000000000 1 0", []int64{0, 1 << 53, 7000, -1, 9007200}, tat(9007199254740, 992)},
		},
		"1428 ns interval": {
			{0, "9 700000 1 0", []int64{0, 10, 10, -1, 0}, tat(0, 0)},
			{0, "9 700000 1 1", []int64{0, 10, 10, -1, 0}, tat(0, 1428)},
		},
		"a limit that redis-cell's floating point makes one less": {
			{0, "719395681836 90988858423 1166568168 0", []int64{0, 719395681837, 719395681836, -1, 0}, tat(0, 0)},
			{9, "719395681836 90988858423 1166568168 -656328561882", []int64{0, 719395681837, 719395681836, -1, 0}, ""},
		},
		"longest time": {
			{0, "0 1 7323372036", []int64{0, 1, 0, -1, 7323372036}, "9223372036123456000"},
			{0, "0 1 7323372036", []int64{1, 1, 0, 7323372036, 7323372036}, "9223372036123456000"},
			{0, "0 1 1", []int64{1, 1, 0, 7323372036, 7323372036}, "9223372036123456000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, s *store) {
				steps := make([]step, len(test))
				for i, row := range test {
					steps[i] = step{now + row.afterMicros, append([]string{"CL.THROTTLE", "k"}, strings.Fields(row.words)...)}
				}
				agree(t, s, steps)
				for i, got := range modelled(t, steps) {
					want := State{Exists: test[i].wantValue != "", Value: test[i].wantValue}
					if got.reply != rawReply(test[i].want, nil) || got.value != stored(want) {
						t.Errorf("%v: got %q, left %q, want %d, %q", steps[i], got.reply, got.value, test[i].want, test[i].wantValue)
					}
				}
			})
		})
	}
}

func TestCLThrottleOverflowsInTime(t *testing.T) {
	onStores(t, func(t *testing.T, s *store) {
		call := parse(t, "CL.THROTTLE", "k", "8000000000", "1", "1", "8000000000")
		_, _, err := call.Model(State{}, someMicros)
		if errorText(err) != errOverflow.Error() {
			t.Errorf("model: got error %v, want %v", err, errOverflow)
		}
		if got, want := s.run(t, call, someMicros), rawReply(nil, errOverflow); got != want {
			t.Errorf("script: got %q, want %q", got, want)
		}
		if got := s.Do("EXISTS", "k"); got != ":0\r\n" {
			t.Errorf("EXISTS = %q", got)
		}
	})
}

func TestCLThrottleOnOtherValues(t *testing.T) {
	onStores(t, func(t *testing.T, s *store) {
		for _, value := range []string{
			"", " ", "x", "1900000000123456000x", "x1900000000123456000", "190000000012345600 ", " 900000000123456000",
			"1900000000.123456000", "1.9e18", "0x1A5E2C4B3D6F7000", "-1900000000123456000", "-900000000123456000",
			"+900000000123456000", "9223372036854775808", "9999999999999999999", "18446744073709551616",
			strings.Repeat("1", 20), strings.Repeat("1", 400), "0000000000000000000000", "nan", "inf", "\x00", "1900000000\x00123456000",
		} {
			s.Do("SET", "k", value)
			for _, quantity := range []string{"-1", "0", "1", "100"} {
				call := parse(t, "CL.THROTTLE", "k", "15", "30", "60", quantity)
				want := "-ERR value is not a state of CL.THROTTLE\r\n"
				if got := s.run(t, call, someMicros); got != want {
					t.Errorf("%q: script: got %q, want %q", value, got, want)
				}
				state := State{Exists: true, Value: value}
				if after, _, err := call.Model(state, someMicros); "-"+errorText(err)+"\r\n" != want || after != state {
					t.Errorf("%q: model: got error %v, state %+v", value, err, after)
				}
			}
			if got, want := s.Do("GET", "k"), bulk(value); got != want {
				t.Errorf("%q became %q", value, got)
			}
		}
		for _, value := range []string{"0", "5", "999999999", "1000000000", "999999999999999999", "1900000000123456000", "9223372036854775807"} {
			s.Do("SET", "k", value)
			call := parse(t, "CL.THROTTLE", "k", "15", "30", "60")
			_, reply, err := call.Model(State{Exists: true, Value: value}, someMicros)
			if got, want := s.run(t, call, someMicros), rawReply(reply, err); err != nil || got != want {
				t.Errorf("%q: script: got %q, model %q", value, got, want)
			}
		}
	})
}

func TestScriptsOnOtherTypes(t *testing.T) {
	onStores(t, func(t *testing.T, s *store) {
		for _, command := range All() {
			for _, make := range []string{"RPUSH k a", "HSET k a b", "SADD k a", "ZADD k 1 a", "XADD k 1-1 a b"} {
				s.Do("DEL", "k")
				s.Do(strings.Fields(make)...)
				got := s.run(t, parse(t, example(command, "k")...), someMicros)
				if want := "-" + errWrongType.Error() + "\r\n"; got != want {
					t.Errorf("%s after %s: got %q, want %q", command.Name, make, got, want)
				}
			}
		}
	})
}

// example is a valid use of a command.
func example(command *Command, key string) []string {
	words, ok := map[string]string{
		"CL.THROTTLE": "15 30 60",
		"FW.ACQUIRE":  "10 1000",
		"SW.ACQUIRE":  "10 1000",
		"SL.ACQUIRE":  "1 10 1000 100 60000",
		"TB.ACQUIRE":  "10 5 1000",
		"LB.ACQUIRE":  "10 5 1000",
	}[command.Name]
	if !ok {
		panic("no example of " + command.Name)
	}
	return append([]string{command.Name, key}, strings.Fields(words)...)
}

func TestCLThrottleScriptAgreesWithModel(t *testing.T) {
	for name, count := range map[string]int{"redis": 100_000, "miniredis": 5_000} {
		t.Run(name, func(t *testing.T) {
			agree(t, stores[name](t), randomSteps(t, count, "CL.THROTTLE", randomCLThrottle))
		})
	}
}

// randomCLThrottle draws limits of every order of magnitude.
func randomCLThrottle(r *rand.Rand) (words func() []string, paceMicros int64) {
	upTo := func(most int64) int64 { return r.Int64N(1 + r.Int64N(most)) }
	burst, count, period := upTo(30), 1+upTo(100), 1+upTo(100)
	switch r.IntN(6) {
	case 0: // intervals below and about a microsecond
		burst, count, period = upTo(1e9), 1+upTo(1e9), 1
	case 1: // long periods
		burst, count, period = upTo(5), 1+upTo(100), 1+upTo(4e8)
	case 2: // the edge of int64
		period = 1 + r.Int64N(math.MaxInt64/1_000_000_000)
		count = 1 + upTo(1e12)
		interval := max(1, int64(float64(period)*1e9/float64(count)))
		burst = max(0, math.MaxInt64/interval-1-upTo(3))
	}
	interval := max(1, int64(float64(period)*1e6/float64(count)))
	return func() []string {
		words := []string{fmt.Sprint(burst), fmt.Sprint(count), fmt.Sprint(period)}
		switch r.IntN(8) {
		case 0, 1, 2:
			return words
		case 3:
			return append(words, "0")
		case 4:
			return append(words, fmt.Sprint(-r.Int64N(burst+2)))
		case 5:
			return append(words, fmt.Sprint(burst-1+r.Int64N(4)))
		}
		return append(words, fmt.Sprint(r.Int64N(burst/2+2)))
	}, 2 * min(interval, 1<<50)
}
