package commands

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/test/redistest"
)

// recorded is a step of a sequence played to the redis-cell module.
type recorded struct {
	AtMicros int64    `json:"at_us"`
	Args     []string `json:"args"`
	Reply    []int64  `json:"reply"`
	Value    *string  `json:"value"` // of the key afterwards
}

func recordedSequences(t *testing.T) (sequences [][]recorded) {
	t.Helper()
	f, err := os.Open("testdata/redis-cell.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var sequence []recorded
		if err := json.Unmarshal(lines.Bytes(), &sequence); err != nil {
			t.Fatal(err)
		}
		sequences = append(sequences, sequence)
	}
	if lines.Err() != nil || len(sequences) == 0 {
		t.Fatalf("got %d sequences, %v", len(sequences), lines.Err())
	}
	return sequences
}

func parse(t testing.TB, args ...string) *Call {
	t.Helper()
	call, err := tryParse(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return call
}

func tryParse(args ...string) (*Call, error) {
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = []byte(arg)
	}
	call := new(Call)
	return call, Lookup(words[0]).Parse(words, call)
}

func TestModelRepliesAsRedisCellDid(t *testing.T) {
	for i, sequence := range recordedSequences(t) {
		states := make(map[string]State)
		for j, step := range sequence {
			key := step.Args[1]
			next, reply, err := parse(t, step.Args...).Model(states[key], step.AtMicros)
			if err != nil || !slices.Equal(reply, step.Reply) {
				t.Fatalf("sequence %d step %d: %q: got %v, %v, want %v", i, j, step.Args, reply, err, step.Reply)
			}
			states[key] = next
			idle := next.Value == "" && reply[0] == 1 // what is refused leaves nothing behind, or what has expired
			if step.Value != nil && next.Value != *step.Value && !idle {
				t.Fatalf("sequence %d step %d: %q: left %q, want %q", i, j, step.Args, next.Value, *step.Value)
			}
		}
	}
}

// evalAt runs a call's script with the clock at nowMicros.
func evalAt(t *testing.T, client *redis.Client, call *Call, nowMicros int64) ([]int64, error) {
	t.Helper()
	argv := make([]any, 0, len(call.argv)+1)
	for _, arg := range call.argv {
		argv = append(argv, arg)
	}
	argv = append(argv, nowMicros)
	script := redis.NewScript(call.command.Script.Source)
	return script.Run(t.Context(), client, []string{string(call.key)}, argv...).Int64Slice()
}

// TestScriptAgreesWithModel plays random steps to both, at the same clock, and
// compares replies, values and lifetimes.
func TestScriptAgreesWithModel(t *testing.T) {
	client := redistest.Start(t, redistest.Options{}).Client(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const key = "k\xff\x00"
	for range 150 {
		client.Del(t.Context(), key)
		var state State
		now := time.Now().UnixMicro()
		limit := randomLimit(r)
		for range 30 {
			if r.IntN(10) == 0 {
				limit = randomLimit(r)
			}
			now += r.Int64N(2_000_000) - 100_000
			call, err := tryParse("CL.THROTTLE", key, limit[0], limit[1], limit[2], strconv.FormatInt(r.Int64N(12)-3, 10))
			if err != nil {
				continue
			}
			next, want, wantErr := call.Model(state, now)
			got, err := evalAt(t, client, call, now)
			if fmt.Sprint(got) != fmt.Sprint(want) || (err == nil) != (wantErr == nil) {
				t.Fatalf("%v on %+v at %d: script %v, %v; model %v, %v", call.argv, state, now, got, err, want, wantErr)
			}
			state = next
			if value := client.Get(t.Context(), key).Val(); value != state.Value && state.ExpiresMicros-now > 2_000_000 {
				t.Fatalf("%v at %d: script left %q, model %+v", call.argv, now, value, state)
			}
		}
	}
}

// randomLimit is a burst, a count and a period long enough for nothing to
// expire by Redis's own clock meanwhile, or it is a rate beyond one per
// microsecond.
func randomLimit(r *rand.Rand) [3]string {
	limits := [][3]int64{
		{r.Int64N(20), 1 + r.Int64N(30), 600},
		{r.Int64N(1000), 1 + r.Int64N(7), 3600},
		{r.Int64N(5), 97, 31536000},
		{600_000_000_000 + r.Int64N(1000), 1_500_000_000, 1},
		{r.Int64N(1 << 40), 1 + r.Int64N(1000), 1 + r.Int64N(100000)},
	}
	l := limits[r.IntN(len(limits))]
	return [3]string{strconv.FormatInt(l[0], 10), strconv.FormatInt(l[1], 10), strconv.FormatInt(l[2], 10)}
}

func TestParseThrottle(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"CL.THROTTLE k 15 30 60", ""},
		{"cl.Throttle k 15 30 60 0", ""},
		{"CL.THROTTLE k 15 30 60 -5", ""},
		{"CL.THROTTLE k 9223372036854775807 1 1", errRange.Error()},
		{"CL.THROTTLE k 15 30", "ERR wrong number of arguments for 'cl.throttle' command"},
		{"CL.THROTTLE k 15 30 60 1 1", "ERR wrong number of arguments for 'cl.throttle' command"},
		{"CL.THROTTLE k x 30 60", errNotInteger.Error()},
		{"CL.THROTTLE k 15 30 9223372036854775808", errNotInteger.Error()},
		{"CL.THROTTLE k 15 0 60", errZeroRate.Error()},
		{"CL.THROTTLE k 15 30 0", errZeroRate.Error()},
		{"CL.THROTTLE k -1 30 60", errNegative.Error()},
		{"CL.THROTTLE k 15 -30 60", errNegative.Error()},
		{"CL.THROTTLE k 15 30 -60", errNegative.Error()},
		{"CL.THROTTLE k 15 30 9223372037", errRange.Error()},
		{"CL.THROTTLE k 15 30 60 9223372036854775807", errRange.Error()},
		{"CL.THROTTLE k 15 9223372036854775807 60", errRange.Error()},
	} {
		_, err := tryParse(strings.Fields(tt.args)...)
		if got := fmt.Sprint(err); got != tt.want && !(err == nil && tt.want == "") {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestWhatIsNoStateIsLeftAlone(t *testing.T) {
	client := redistest.Start(t, redistest.Options{}).Client(t)
	call := parse(t, "CL.THROTTLE", "k", "15", "30", "60")
	for _, value := range []string{"", "x", "1.5", "-1", "+1", " 1", "9223372036854775808", "18446744073709551616", strings.Repeat("1", 100)} {
		client.Set(t.Context(), "k", value, 0)
		if reply, err := evalAt(t, client, call, time.Now().UnixMicro()); err == nil || err.Error() != errNotTAT.Error() {
			t.Errorf("on %q: got %v, %v, want %v", value, reply, err, errNotTAT)
		}
		if got := client.Get(t.Context(), "k").Val(); got != value {
			t.Errorf("%q became %q", value, got)
		}
	}
	client.Del(t.Context(), "k")
	client.RPush(t.Context(), "k", "element")
	if _, err := evalAt(t, client, call, time.Now().UnixMicro()); err == nil || err.Error() != "WRONGTYPE Operation against a key holding the wrong kind of value" {
		t.Errorf("on a list: got %v, want Redis's own WRONGTYPE", err)
	}
}

func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range All() {
		if c.Name != strings.ToUpper(c.Name) || seen[c.Name] || c.Arity == 0 || c.Summary == "" || !strings.HasPrefix(c.Usage, c.Name+" key ") {
			t.Errorf("%+v is not a proper entry", c)
		}
		seen[c.Name] = true
		if Lookup([]byte(strings.ToLower(c.Name))) != c {
			t.Errorf("%s is not found by its name in lower case", c.Name)
		}
		for _, part := range []string{"-- KEYS[1]", "-- ARGV", "-- State", "-- Reply"} {
			if !strings.Contains(c.Script.Source, part) {
				t.Errorf("the script of %s does not say %q", c.Name, part)
			}
		}
	}
	if Lookup([]byte("GET")) != nil {
		t.Error("GET is no limiter")
	}
}

func TestEvalFromEvalSHA(t *testing.T) {
	call := parse(t, "CL.THROTTLE", "k\r\n", "15", "30", "60")
	if got, want := string(EvalFromEvalSHA(call.AppendEvalSHA(nil))), string(call.AppendEval(nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := EvalFromEvalSHA([]byte("*1\r\n$4\r\nPING\r\n")); got != nil {
		t.Errorf("got %q of a PING", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("15", "30", "60", "1")
	f.Add("-1", "+30", "007", "9223372036854775807")
	f.Add("9223372036854775806", "1", "9223372036", "-9223372036854775808")
	f.Fuzz(func(t *testing.T, burst, count, period, quantity string) {
		call, err := tryParse("CL.THROTTLE", "k", burst, count, period, quantity)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "ERR ") {
				t.Errorf("got error %q", err)
			}
			return
		}
		_, reply, err := call.Model(State{}, 1_800_000_000_000_000)
		if err == nil && (len(reply) != 5 || reply[2] < 0 || reply[2] > reply[1]) {
			t.Errorf("%q %q %q %q: got %v", burst, count, period, quantity, reply)
		}
	})
}

func BenchmarkRewrite(b *testing.B) {
	args := [][]byte{[]byte("CL.THROTTLE"), []byte("user123"), []byte("15"), []byte("30"), []byte("60")}
	var call Call
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if err := clThrottle.Parse(args, &call); err != nil {
			b.Fatal(err)
		}
		out = call.AppendEvalSHA(out[:0])
	}
}
