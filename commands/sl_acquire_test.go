package commands

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseSLAcquire(t *testing.T) {
	parseErrors(t, "SL.ACQUIRE", map[string]string{
		"k 1 10 1000":                                    "",
		"k 0 10 1000":                                    "",
		"k 9223372036854775807 10 1000":                  "",
		"k 1 10 1000 10 1000":                            "",
		"k 1 1000000000000 1000000000000 1 1":            "",
		"k 1" + strings.Repeat(" 10 1000", maxWindows):   "",
		"k 1" + strings.Repeat(" 10 1000", 1+maxWindows): arityText(slAcquire),
		"k -1 10 1000":                                   "ERR quantity must not be negative",
		"k 1 10 1000 10":                                 "ERR syntax error",
		"k 1 0 1000":                                     limitRange,
		"k 1 10 0":                                       windowRange,
		"k 1 10 1000 0 1000":                             limitRange,
		"k 1 10 1000 10 1000000000001":                   windowRange,
		"k 9223372036854775808 10 1000":                  errNotInteger.Error(),
		"k x 10 1000":                                    errNotInteger.Error(),
		"k 1 10 1000 x 1000":                             errNotInteger.Error(),
		"k 1 10 1000 10 x":                               errNotInteger.Error(),
		"k 1 10":                                         arityText(slAcquire),
	})
}

func TestSLAcquireSteps(t *testing.T) {
	log := func(entries ...int64) string {
		text := "sl:"
		for i := 0; i < len(entries); i += 2 {
			text += fmt.Sprintf("%d:%d ", someMicros+entries[i], entries[i+1])
		}
		return text
	}
	runSteps(t, "SL.ACQUIRE", map[string][]stepRow{
		"one window": {
			{0, "0 3 1000", []int64{0, 3, 3, -1, 0, -1}, "", 0},
			{0, "4 3 1000", []int64{1, 3, 3, -1, 0, 0}, "", 0},
			{0, "1 3 1000", []int64{0, 3, 2, -1, 1000, -1}, log(0, 1), 1000},
			{1, "2 3 1000", []int64{0, 3, 0, -1, 1000, -1}, log(0, 1, 1, 2), 1000},
			{2, "1 3 1000", []int64{1, 3, 0, 1000, 1000, 0}, log(0, 1, 1, 2), 1000},
			{999_999, "1 3 1000", []int64{1, 3, 0, 1, 1, 0}, log(0, 1, 1, 2), 1000},
			{1_000_000, "2 3 1000", []int64{1, 3, 1, 1, 1, 0}, log(0, 1, 1, 2), 1000},
			{1_000_000, "1 3 1000", []int64{0, 3, 0, -1, 1000, -1}, log(1, 2, 1_000_000, 1), 1000},
			{1_000_000, "0 3 1000", []int64{0, 3, 0, -1, 1000, -1}, log(1, 2, 1_000_000, 1), 1000},
		},
		"two windows": {
			{0, "2 2 1000 5 60000", []int64{0, 2, 0, -1, 1000, -1}, log(0, 2), 60000},
			{1000, "1 2 1000 5 60000", []int64{1, 2, 0, 999, 999, 0}, log(0, 2), 60000},
			{1_000_000, "2 2 1000 5 60000", []int64{0, 2, 0, -1, 1000, -1}, log(0, 2, 1_000_000, 2), 60000},
			{2_000_000, "2 2 1000 5 60000", []int64{1, 5, 1, 58000, 59000, 1}, log(0, 2, 1_000_000, 2), 60000},
			{2_000_000, "3 2 1000 5 60000", []int64{1, 2, 2, -1, 0, 0}, log(0, 2, 1_000_000, 2), 60000},
			{2_000_000, "0 2 1000 5 60000", []int64{0, 5, 1, -1, 59000, -1}, log(0, 2, 1_000_000, 2), 60000},
			{2_000_000, "1 2 1000 5 60000", []int64{0, 5, 0, -1, 60000, -1}, log(0, 2, 1_000_000, 2, 2_000_000, 1), 60000},
			{2_000_001, "2 2 1000 5 60000", []int64{1, 5, 0, 58000, 60000, 1}, log(0, 2, 1_000_000, 2, 2_000_000, 1), 60000},
			{61_000_000, "2 2 1000 5 60000", []int64{0, 2, 0, -1, 1000, -1}, log(2_000_000, 1, 61_000_000, 2), 60000},
		},
		"the clock steps back": {
			{0, "1 3 1000", []int64{0, 3, 2, -1, 1000, -1}, log(0, 1), 1000},
			{-60e6, "1 3 1000", []int64{0, 3, 1, -1, 61000, -1}, log(0, 2), 61000},
			{-60e6, "2 3 1000", []int64{1, 3, 1, 61000, 61000, 0}, log(0, 2), 61000},
		},
		"10^9 in a millisecond and in ten years": {
			{0, "1000000000 1000000000 1 1000000000 315360000000", []int64{0, 1e9, 0, -1, 1, -1}, log(0, 1e9), 315360000000},
			{1000, "1 1000000000 1 1000000000 315360000000", []int64{1, 1e9, 0, 315359999999, 315359999999, 1}, log(0, 1e9), 315360000000},
			{1000, "9223372036854775807 1000000000 1", []int64{1, 1e9, 1e9, -1, 0, 0}, log(0, 1e9), 315360000000},
		},
	})
}

func TestSLAcquireOnOtherValues(t *testing.T) {
	rejectsValues(t, slAcquire, "sl:", []string{
		"1", "1:", ":1 ", "1:1", "1:x ", "x:1 ", "-1:1 ", "1:-1 ", "1:1 2", "1:1  ", "9007199254740992:1 ", "1:9007199254740992 ", "1 1 ",
	})
	acceptsValues(t, slAcquire, "sl:", []string{"", "1:1 ", "1900000000123455:1 ", "1900000000123455:1 1900000000123456:010 ", "1900000000123456:10 1:1 "})
}

func TestSLAcquireScriptAgreesWithModel(t *testing.T) {
	agreeOnRandomSteps(t, "SL.ACQUIRE", func(r *rand.Rand) (func() []string, int64) {
		windows := make([]window, 1+r.IntN(3))
		for i := range windows {
			windows[i] = randomWindow(r)
			if i > 0 && r.IntN(3) > 0 { // so that they get into each other's way
				windows[i] = window{windows[0].limit + upTo(r, 30), min(windows[0].micros*(1+r.Int64N(5)), maxCount*1000)}
			}
		}
		return func() []string {
			words := append(randomQuantity(r, windows[0].limit), "1")[:1]
			for _, w := range windows {
				words = append(words, fmt.Sprint(w.limit), fmt.Sprint(w.micros/1000))
			}
			return words
		}, windows[0].micros / 5
	})
}

// TestSLAcquireAgainstALog compares with a log of what was admitted that is kept
// whole: what is admitted, which window is named, and when it says to come back.
func TestSLAcquireAgainstALog(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	for range 1000 {
		windows := make([]window, 1+r.IntN(3))
		var pairs []string
		for i := range windows {
			windows[i] = window{1 + upTo(r, 20), 1000 * (1 + upTo(r, 5000))}
			pairs = append(pairs, fmt.Sprint(windows[i].limit), fmt.Sprint(windows[i].micros/1000))
		}
		var state State
		var log []admission
		violated := func(now, quantity int64) (which []int64) {
			for i, w := range windows {
				if quantity+sum(log, func(a admission) bool { return now-a.micros < w.micros }) > w.limit {
					which = append(which, int64(i))
				}
			}
			return which
		}
		take := func(now, quantity int64) []int64 {
			words := slices.Concat([]string{"SL.ACQUIRE", "k", fmt.Sprint(quantity)}, pairs)
			after, reply, err := parse(t, words...).Model(state, now)
			if err != nil {
				t.Fatal(err)
			}
			which := violated(now, quantity)
			if reply[0] != limitedNumber(len(which) > 0) || reply[0] == 1 && !slices.Contains(which, reply[5]) || reply[0] == 0 && reply[5] != -1 {
				t.Fatalf("%q at %d: got %d, want violated %d\nlog %+v", words, now, reply, which, log)
			}
			if reply[0] == 0 && quantity > 0 {
				log = append(log, admission{now, quantity})
			} else if after != state {
				t.Fatalf("%q at %d: state %+v became %+v", words, now, state, after)
			}
			state = after
			return reply
		}
		now := someMicros
		for range 60 {
			now += r.Int64N(1 + windows[0].micros/3)
			quantity := r.Int64N(1 + r.Int64N(windows[0].limit+1))
			reply := take(now, quantity)
			if reply[3] <= 0 {
				continue
			}
			refused++
			if early := max(now, now+(reply[3]-1)*1000-1); len(violated(early, quantity)) == 0 {
				t.Fatalf("told to wait %d, but %d µs later it fits\nlog %+v", reply[3], early-now, log)
			}
			if now += reply[3] * 1000; len(violated(now, quantity)) > 0 {
				t.Fatalf("told to wait %d, and it does not fit then\nlog %+v", reply[3], log)
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d refused", refused)
	}
}
