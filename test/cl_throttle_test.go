package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
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

// recordedSequences reads what was recorded from redis-cell.
func recordedSequences(t *testing.T) [][]recordedStep {
	t.Helper()
	file, err := os.Open("../commands/testdata/redis-cell.jsonl")
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

// integers encodes an array of integers.
func integers(numbers ...int64) string {
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

// clocked is a cellproxy on a Redis whose clock stands still.
type clocked struct {
	redis  *redistest.Server
	direct *wire.Conn // to Redis
	client *wire.Conn // to cellproxy
}

func newClocked(t *testing.T, flags ...string) *clocked {
	t.Helper()
	redis := redistest.Start(t, redistest.Options{FakeClock: true})
	return &clocked{
		redis: redis, direct: redis.Dial(t),
		client: proxytest.Start(t, redis.URL(), flags...).Dial(t),
	}
}

// stored returns the value of a key in the notation of recordedStep.Value.
func (c *clocked) stored(key string) string {
	return c.direct.Do("GET", key)
}

// leaves reports whether a step may leave what is stored. It is what redis-cell
// left, but for state whose last millisecond has begun: redis-cell has dropped
// it, as it cuts its TTLs off to milliseconds, and cellproxy has not yet.
func leaves(step recordedStep, stored string) bool {
	if step.Value != nil {
		return stored == bulk(*step.Value)
	}
	var length, tat int64
	if n, _ := fmt.Sscanf(stored, "$%d\r\n%d\r\n", &length, &tat); n == 2 {
		return tat < step.AtMicros*1000+1_000_000
	}
	return stored == "$-1\r\n"
}

// tat is the theoretical arrival time that a step stored, in nanoseconds.
func tat(t *testing.T, step recordedStep) int64 {
	t.Helper()
	nanos, err := strconv.ParseInt(*step.Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return nanos
}

func TestRecordedSequencesOfRedisCell(t *testing.T) {
	replayRecorded(t, newClocked(t))
}

func replayRecorded(t *testing.T, c *clocked) {
	t.Helper()
	for i, sequence := range recordedSequences(t) {
		c.direct.Do("FLUSHALL")
		for j, step := range sequence {
			c.redis.SetClock(step.AtMicros * 1000)
			if got, want := c.client.Do(step.Args...), integers(step.Reply...); got != want {
				t.Fatalf("sequence %d step %d: %q at %d µs\n got %q\nwant %q", i, j, step.Args, step.AtMicros, got, want)
			}
			if got := c.stored(step.Args[1]); !leaves(step, got) {
				want, _ := json.Marshal(step.Value)
				t.Fatalf("sequence %d step %d: %q at %d µs left %q, want %s", i, j, step.Args, step.AtMicros, got, want)
			}
		}
	}
}

// TestStateOfRedisCellIsHonoured puts every recorded state there as redis-cell
// would have left it, and sees that the next step goes on from it.
func TestStateOfRedisCellIsHonoured(t *testing.T) {
	c := newClocked(t)
	for i, sequence := range recordedSequences(t) {
		for j, step := range sequence[:len(sequence)-1] {
			next := sequence[j+1]
			if step.Value == nil || next.Args[1] != step.Args[1] {
				continue
			}
			c.redis.SetClock(step.AtMicros * 1000)
			c.direct.Do("FLUSHALL")
			ttlMillis := (tat(t, step)-step.AtMicros*1000)/1e6 + 1
			c.direct.Do("SET", step.Args[1], *step.Value, "PX", strconv.FormatInt(ttlMillis, 10))
			c.redis.SetClock(next.AtMicros * 1000)
			if got, want := c.client.Do(next.Args...), integers(next.Reply...); got != want {
				t.Fatalf("sequence %d step %d: %q on %s\n got %q\nwant %q", i, j+1, next.Args, *step.Value, got, want)
			}
		}
	}
}

// TestStateLastsUntilItMeansNothing sees that what cellproxy leaves goes by
// itself when the TAT has come: not earlier, and at most 2 ms later.
func TestStateLastsUntilItMeansNothing(t *testing.T) {
	c := newClocked(t)
	for _, sequence := range recordedSequences(t) {
		c.direct.Do("FLUSHALL")
		for _, step := range sequence {
			c.redis.SetClock(step.AtMicros * 1000)
			c.client.Do(step.Args...)
			if step.Value == nil {
				continue
			}
			var ttlMillis int64
			if n, _ := fmt.Sscanf(c.direct.Do("PTTL", step.Args[1]), ":%d", &ttlMillis); n != 1 || ttlMillis < 0 {
				t.Fatalf("%q: PTTL %d", step.Args, ttlMillis)
			}
			// Redis counts whole milliseconds and keeps a key to the end of its last.
			gone := (step.AtMicros/1000 + ttlMillis + 1) * 1e6
			if late := gone - tat(t, step); late < 0 || late > 2e6 {
				t.Fatalf("%q at %d µs: gone %d ns after its TAT", step.Args, step.AtMicros, late)
			}
		}
	}
}
