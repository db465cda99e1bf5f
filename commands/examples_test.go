package commands

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// decider is an algorithm: whether so many units are admitted at a moment, in
// milliseconds. It keeps its own state.
type decider func(nowMillis, units int64) bool

// usualExample is an algorithm as it is usually written, and the command for it.
type usualExample struct {
	usual   func() decider
	command string // with %d for the quantity
	rows    []exampleRow
	// If they agree on everything, and not just on the rows: about how much
	// time to let pass between random requests, in milliseconds.
	pace int64
}

type exampleRow struct {
	millis, units int64
	admitted      bool
}

// repeated are rows of one unit each.
func repeated(times int, millis int64, admitted bool) []exampleRow {
	return slices.Repeat([]exampleRow{{millis, 1, admitted}}, times)
}

// TestUsualAlgorithms sees that who changes from the usual ways to limit with
// Redis gets the same decisions.
func TestUsualAlgorithms(t *testing.T) {
	for name, e := range map[string]usualExample{
		"a counter with PEXPIRE": {
			usual: counterWithExpiry(5, 1000), command: "FW.ACQUIRE k 5 1000 %d", pace: 800,
			rows: slices.Concat(repeated(5, 0, true), repeated(2, 10, false), repeated(1, 999, false), repeated(5, 1000, true), repeated(1, 1999, false)),
		},
		"a hash of sub-windows": {
			usual: subWindows(100, 60_000, 6), command: "SW.ACQUIRE k 100 60000 %d SLICES 6",
			rows: []exampleRow{{0, 60, true}, {12_000, 40, true}, {12_000, 1, false}, {59_000, 1, false}, {71_000, 60, true}, {71_000, 41, false}, {83_000, 40, true}, {83_000, 1, false}},
		},
		"a list of sub-windows": {
			usual: listOfSubWindows(3, 1000, 10), command: "SW.ACQUIRE k 3 1000 %d SLICES 10",
			rows: []exampleRow{{0, 1, true}, {250, 1, true}, {500, 1, true}, {900, 1, false}, {1100, 1, true}, {1150, 1, false}, {1350, 1, true}},
		},
		"a sorted set as a log": {
			usual: log(3, 1000), command: "SW.ACQUIRE k 3 1000 %d EXACT", pace: 1200,
			rows: []exampleRow{{0, 1, true}, {400, 1, true}, {999, 1, true}, {999, 1, false}, {1000, 1, true}, {1399, 1, false}, {1400, 1, true}},
		},
		"a sorted set for several windows": {
			usual: func() decider {
				second, minute := log(2, 1000)(), log(5, 60_000)()
				return func(now, units int64) bool { // all or nothing: asked first, taken then
					return second(now, -units) && minute(now, -units) && second(now, units) && minute(now, units)
				}
			},
			command: "SL.ACQUIRE k %d 2 1000 5 60000", pace: 40_000,
			rows: []exampleRow{{0, 2, true}, {500, 1, false}, {1000, 2, true}, {2000, 2, false}, {2000, 1, true}, {59_999, 1, false}, {60_000, 2, true}},
		},
		"a leaky bucket with its level and the time of the last leak": {
			usual: leakyBucket(10, 1, 1024), command: "LB.ACQUIRE k 10 1 1024 %d", pace: 2100,
			rows: []exampleRow{{0, 10, true}, {1023, 1, false}, {1024, 1, true}, {1024, 1, false}, {5 * 1024, 5, false}, {5 * 1024, 4, true}, {20 * 1024, 10, true}},
		},
		"a token bucket with its tokens and the time of the last refill": {
			usual: tokenBucket(10, 4, 1024), command: "TB.ACQUIRE k 10 4 1024 %d", pace: 600,
			rows: []exampleRow{{0, 10, true}, {255, 1, false}, {256, 1, true}, {1280, 5, false}, {1280, 4, true}, {99_999, 10, true}, {99_999, 1, false}},
		},
		"a funnel of 15 that lets 30 through in 60 s": {
			usual: leakyBucket(15, 30, 60_000), command: "LB.ACQUIRE k 15 30 60000 %d",
			rows: slices.Concat(repeated(15, 0, true), repeated(5, 0, false), repeated(1, 2000, true), repeated(1, 2000, false), repeated(2, 6000, true), repeated(1, 6000, false)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			usual, ours := e.usual(), modelDecider(t, e.command)
			for _, row := range e.rows {
				if got := usual(row.millis, row.units); got != row.admitted {
					t.Errorf("as usual: %+v: got %v", row, got)
				}
				if got := ours(row.millis, row.units); got != row.admitted {
					t.Errorf(e.command+": at %d: got %v, want %v", row.units, row.millis, got, row.admitted)
				}
			}
			if e.pace > 0 {
				agreeOnDecisions(t, e)
			}
		})
	}
}

// agreeOnDecisions compares the two at random.
func agreeOnDecisions(t *testing.T, e usualExample) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	usual, ours := e.usual(), modelDecider(t, e.command)
	admitted := 0
	for now, i := int64(0), 0; i < 5000; i++ {
		now += r.Int64N(e.pace)
		units := 1 + upTo(r, 3)
		got, want := ours(now, units), usual(now, units)
		if got != want {
			t.Fatalf("seed %d: "+e.command+" at %d: got %v, want %v", seed, units, now, got, want)
		}
		if got {
			admitted++
		}
	}
	if admitted < 500 || admitted > 4500 {
		t.Errorf("%d of 5000 admitted", admitted)
	}
}

// modelDecider has the model decide.
func modelDecider(t *testing.T, command string) decider {
	var state State
	return func(nowMillis, units int64) bool {
		words := strings.Fields(fmt.Sprintf(command, units))
		after, reply, err := parse(t, words...).Model(state, someMicros+nowMillis*1000)
		if err != nil {
			t.Fatal(err)
		}
		state = after
		return reply[0] == 0
	}
}

// counterWithExpiry is INCRBY, and PEXPIRE with the first.
func counterWithExpiry(limit, windowMillis int64) func() decider {
	return func() decider {
		count, expires := int64(0), int64(0)
		return func(now, units int64) bool {
			if now >= expires {
				count = 0
			}
			if count+units > limit {
				return false
			}
			if count == 0 {
				expires = now + windowMillis
			}
			count += units
			return true
		}
	}
}

// subWindows is a hash of counters, of which those of the last sub-windows are
// summed up.
func subWindows(limit, windowMillis, count int64) func() decider {
	return func() decider {
		hash := make(map[int64]int64)
		return func(now, units int64) bool {
			number, used := now/(windowMillis/count), units
			for n, c := range hash {
				if n > number-count {
					used += c
				} else {
					delete(hash, n)
				}
			}
			if used > limit {
				return false
			}
			hash[number] += units
			return true
		}
	}
}

// listOfSubWindows is the same with the newest at a list's head, and as many
// zeros pushed as sub-windows have gone by.
func listOfSubWindows(limit, windowMillis int64, count int) func() decider {
	return func() decider {
		list, newest := make([]int64, count), int64(0)
		return func(now, units int64) bool {
			for ; newest < now/(windowMillis/int64(count)); newest++ {
				list = append([]int64{0}, list[:count-1]...)
			}
			used := units
			for _, c := range list {
				used += c
			}
			if used > limit {
				return false
			}
			list[0] += units
			return true
		}
	}
}

// log is ZREMRANGEBYSCORE, ZCARD and ZADD. Units below 0 only ask.
func log(limit, windowMillis int64) func() decider {
	return func() decider {
		var set []int64
		return func(now, units int64) bool {
			set = slices.DeleteFunc(set, func(at int64) bool { return at <= now-windowMillis })
			if int64(len(set))+max(units, -units) > limit {
				return false
			}
			for range units {
				set = append(set, now)
			}
			return true
		}
	}
}

// leakyBucket has a level and the time at which it was true.
func leakyBucket(capacity, units, perMillis int64) func() decider {
	return func() decider {
		level, last := 0.0, int64(0)
		return func(now, q int64) bool {
			level = max(0, level-float64(now-last)*float64(units)/float64(perMillis))
			last = now
			if level+float64(q) > float64(capacity) {
				return false
			}
			level += float64(q)
			return true
		}
	}
}

// tokenBucket has tokens and the time at which they were counted.
func tokenBucket(capacity, units, perMillis int64) func() decider {
	return func() decider {
		tokens, last := float64(capacity), int64(0)
		return func(now, q int64) bool {
			tokens = min(float64(capacity), tokens+float64(now-last)*float64(units)/float64(perMillis))
			last = now
			if tokens < float64(q) {
				return false
			}
			tokens -= float64(q)
			return true
		}
	}
}

// TestPeriodLimit is the period limit as some frameworks have it: allowed, the
// last of the quota, or over it; from the first request on, or aligned to the
// days of a place an hour ahead of UTC.
func TestPeriodLimit(t *testing.T) {
	const allowed, hitQuota, overQuota = 1, 2, 0
	const day = 86400
	midnight := (someMicros/1e6/day+1)*day - 3600
	for name, test := range map[string]struct {
		command string
		at      []int64 // seconds since the epoch
		want    []int
	}{
		"from the first request on": {
			"FW.ACQUIRE k 3 60000", []int64{0, 0, 59, 59, 60, 61, 119, 120},
			[]int{allowed, allowed, hitQuota, overQuota, allowed, allowed, hitQuota, allowed},
		},
		"aligned": {
			"FW.ACQUIRE k 2 86400000 1 ALIGN -3600000", []int64{midnight - 2, midnight - 1, midnight - 1, midnight, midnight + day - 1, midnight + day - 1, midnight + day},
			[]int{allowed, hitQuota, overQuota, allowed, hitQuota, overQuota, allowed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var state State
			for i, at := range test.at {
				if at < 1e6 {
					at += midnight
				}
				after, reply, err := parse(t, strings.Fields(test.command)...).Model(state, at*1e6)
				if err != nil {
					t.Fatal(err)
				}
				state = after
				got := allowed
				if reply[0] == 1 {
					got = overQuota
				} else if reply[2] == 0 {
					got = hitQuota
				}
				if got != test.want[i] {
					t.Errorf("request %d: got %d, want %d", i, got, test.want[i])
				}
			}
		})
	}
}

// TestTokenBucketAgainstAnother compares TB.ACQUIRE with a limiter of Go's own.
// That counts in floating point: what it has within a millionth of a token of
// the quantity is left out.
func TestTokenBucketAgainstAnother(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	compared, admitted := 0, 0
	for range 500 {
		capacity, units, perMillis := 1+upTo(r, 30), 1+upTo(r, 50), 1+upTo(r, 10_000)
		other := rate.NewLimiter(rate.Limit(float64(units)/(float64(perMillis)/1000)), int(capacity))
		var state State
		now := someMicros
		for range 200 {
			now += r.Int64N(1 + 2000*perMillis/units)
			quantity := 1 + upTo(r, capacity)
			if tokens := other.TokensAt(time.UnixMicro(now)); tokens > float64(quantity)-1e-6 && tokens < float64(quantity)+1e-6 {
				continue
			}
			words := strings.Fields(fmt.Sprintf("TB.ACQUIRE k %d %d %d %d", capacity, units, perMillis, quantity))
			after, reply, err := parse(t, words...).Model(state, now)
			if err != nil {
				t.Fatal(err)
			}
			state = after
			if want := limitedNumber(!other.AllowN(time.UnixMicro(now), int(quantity))); reply[0] != want {
				t.Fatalf("%q at %d: got %d, want %d", words, now, reply, want)
			}
			compared++
			admitted += 1 - int(reply[0])
		}
	}
	if compared < 80_000 || admitted < 20_000 || admitted > compared-10_000 {
		t.Errorf("%d compared, %d admitted", compared, admitted)
	}
}
