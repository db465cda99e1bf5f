package commands

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestParseSWAcquire(t *testing.T) {
	const slices = "ERR n must be between 1 and 1000"
	parseErrors(t, "SW.ACQUIRE", map[string]string{
		"k 10 1000":                            "",
		"k 10 1000 0":                          "",
		"k 10 1000 9223372036854775807":        "",
		"k 10 1000 EXACT":                      "",
		"k 10 1000 exact":                      "",
		"k 10 1000 2 Exact":                    "",
		"k 10 1000 SLICES 1":                   "",
		"k 10 1000 2 slices 1000":              "",
		"k 1000000000000 1000000000000":        "",
		"k 10 1000 -1":                         "ERR quantity must not be negative",
		"k 10 1000 -9223372036854775808 EXACT": "ERR quantity must not be negative",
		"k 10 1000 SLICES 0":                   slices,
		"k 10 1000 SLICES -1":                  slices,
		"k 10 1000 SLICES 1001":                slices,
		"k 10 1000 SLICES 9223372036854775807": slices,
		"k 10 1000 SLICES 9223372036854775808": errNotInteger.Error(),
		"k 10 1000 SLICES x":                   errNotInteger.Error(),
		"k 10 1000 SLICES":                     "ERR syntax error",
		"k 10 1000 1 2":                        "ERR syntax error",
		"k 10 1000 EXACT 1":                    "ERR syntax error",
		"k 10 1000 ALIGN":                      "ERR syntax error",
		"k 0 1000":                             limitRange,
		"k 1000000000001 1000":                 limitRange,
		"k 10 0":                               windowRange,
		"k 10 9223372036854775807":             windowRange,
		"k x 1000":                             errNotInteger.Error(),
		"k 10 1000 9223372036854775808":        errNotInteger.Error(),
		"k 10 1000 1 SLICES 2 EXACT":           arityText(swAcquire),
		"k 10":                                 arityText(swAcquire),
	})
}

func TestSWAcquireSteps(t *testing.T) {
	state := func(used, ends, count int64, older ...int64) string {
		text := fmt.Sprintf("sw:%d %d %d ", used, someMicros+ends, count)
		for i := 0; i < len(older); i += 2 {
			text += fmt.Sprintf("%d:%d ", someMicros+older[i], older[i+1])
		}
		return text
	}
	const tenYears = 315_360_000_000
	runSteps(t, "SW.ACQUIRE", map[string][]stepRow{
		"exact": {
			{0, "3 1000 0 EXACT", []int64{0, 3, 3, -1, 0}, "", 0},
			{0, "3 1000 4 EXACT", []int64{1, 3, 3, -1, 0}, "", 0},
			{0, "3 1000 EXACT", []int64{0, 3, 2, -1, 1000}, state(1, 0, 1), 1000},
			{1, "3 1000 EXACT", []int64{0, 3, 1, -1, 1000}, state(2, 1, 1, 0, 1), 1000},
			{1, "3 1000 EXACT", []int64{0, 3, 0, -1, 1000}, state(3, 1, 2, 0, 1), 1000},
			{2, "3 1000 EXACT", []int64{1, 3, 0, 1000, 1000}, state(3, 1, 2, 0, 1), 1000},
			{999_000, "3 1000 2 EXACT", []int64{1, 3, 0, 2, 2}, state(3, 1, 2, 0, 1), 1000},
			{999_999, "3 1000 EXACT", []int64{1, 3, 0, 1, 1}, state(3, 1, 2, 0, 1), 1000},
			{1_000_000, "3 1000 2 EXACT", []int64{1, 3, 1, 1, 1}, state(3, 1, 2, 0, 1), 1000},
			{1_000_000, "3 1000 EXACT", []int64{0, 3, 0, -1, 1000}, state(3, 1_000_000, 1, 1, 2), 1000},
			{1_000_001, "3 1000 0 EXACT", []int64{0, 3, 2, -1, 1000}, state(3, 1_000_000, 1, 1, 2), 1000},
			{2_000_000, "3 1000 0 EXACT", []int64{0, 3, 3, -1, 0}, state(3, 1_000_000, 1, 1, 2), 1000},
			{2_000_000, "3 1000 3 EXACT", []int64{0, 3, 0, -1, 1000}, state(3, 2_000_000, 3), 1000},
		},
		"two slices": {
			{0, "3 1000 SLICES 2", []int64{0, 3, 2, -1, 1500}, state(1, 500_000, 1), 1500},
			{500_000, "3 1000 SLICES 2", []int64{0, 3, 1, -1, 1000}, state(2, 500_000, 2), 1000},
			{500_001, "3 1000 SLICES 2", []int64{0, 3, 0, -1, 1500}, state(3, 1_000_001, 1, 500_000, 2), 1500},
			{500_001, "3 1000 SLICES 2", []int64{1, 3, 0, 1000, 1500}, state(3, 1_000_001, 1, 500_000, 2), 1500},
			{500_001, "3 1000 3 SLICES 2", []int64{1, 3, 0, 1500, 1500}, state(3, 1_000_001, 1, 500_000, 2), 1500},
			{1_499_999, "3 1000 SLICES 2", []int64{1, 3, 0, 1, 501}, state(3, 1_000_001, 1, 500_000, 2), 1500},
			{1_500_000, "3 1000 2 SLICES 2", []int64{0, 3, 0, -1, 1500}, state(3, 2_000_000, 2, 1_000_001, 1), 1500},
			{3_000_000, "3 1000 3", []int64{0, 3, 0, -1, 1100}, state(3, 3_100_000, 3), 1100},
		},
		"slices that do not divide the window": {
			{0, "2 1 SLICES 3", []int64{0, 2, 1, -1, 2}, state(1, 334, 1), 2},
			{335, "2 1 SLICES 3", []int64{0, 2, 0, -1, 2}, state(2, 669, 1, 334, 1), 2},
			{1333, "2 1 SLICES 3", []int64{1, 2, 0, 1, 1}, state(2, 669, 1, 334, 1), 2},
			{1334, "2 1 SLICES 3", []int64{0, 2, 0, -1, 2}, state(2, 1668, 1, 669, 1), 2},
		},
		"other parameters on the same state": {
			{0, "3 1000 3 EXACT", []int64{0, 3, 0, -1, 1000}, state(3, 0, 3), 1000},
			{1000, "5 1000 2", []int64{0, 5, 0, -1, 1100}, state(5, 101_000, 2, 0, 3), 1100},
			{1000, "2 2000 0", []int64{1, 2, 0, 1999, 2100}, state(5, 101_000, 2, 0, 3), 1100},
			{1000, "2 2000 1 EXACT", []int64{1, 2, 0, 2100, 2100}, state(5, 101_000, 2, 0, 3), 1100},
			{200_000, "2 100 1 EXACT", []int64{1, 2, 0, 1, 1}, state(5, 101_000, 2, 0, 3), 1100},
			{201_000, "2 100 1 EXACT", []int64{0, 2, 1, -1, 100}, state(1, 201_000, 1), 100},
		},
		"slices of a shorter window": {
			{0, "9 1 SLICES 1", []int64{0, 9, 8, -1, 2}, state(1, 1000, 1), 2},
			{1001, "9 1000 SLICES 1", []int64{0, 9, 7, -1, 2000}, state(2, 1_001_001, 1, 1000, 1), 2000},
		},
		"the clock steps back": {
			{0, "3 1000 2 EXACT", []int64{0, 3, 1, -1, 1000}, state(2, 0, 2), 1000},
			{-60e6, "3 1000 2 EXACT", []int64{1, 3, 1, 61000, 61000}, state(2, 0, 2), 1000},
			{-60e6, "3 1000", []int64{0, 3, 0, -1, 61000}, state(3, 0, 3), 61000},
		},
		"10^9 in a millisecond and in ten years": {
			{0, "1000000000 1 1000000000 EXACT", []int64{0, 1e9, 0, -1, 1}, state(1e9, 0, 1e9), 1},
			{999, "1000000000 1 EXACT", []int64{1, 1e9, 0, 1, 1}, state(1e9, 0, 1e9), 1},
			{1000, "1000000000 315360000000 1000000000 EXACT", []int64{1, 1e9, 0, tenYears - 1, tenYears - 1}, state(1e9, 0, 1e9), 1},
			{1000, "1000000000 1 1000000000 EXACT", []int64{0, 1e9, 0, -1, 1}, state(1e9, 1000, 1e9), 1},
			{2001, "1000000000 315360000000 9223372036854775807", []int64{1, 1e9, 0, -1, tenYears - 1}, state(1e9, 1000, 1e9), 1},
		},
	})
}

// TestSWAcquireStateIsBounded takes with a window that never ends after one of
// the shortest slices, over and over.
func TestSWAcquireStateIsBounded(t *testing.T) {
	var state State
	now := someMicros
	for range 200_000 {
		now += 2
		after, reply, err := parse(t, "SW.ACQUIRE", "k", "1000000000000", "1000000000000", "1", "SLICES", "1").Model(state, now)
		if err != nil || reply[0] != 0 {
			t.Fatal(reply, err)
		}
		if state = after; len(state.Value) > 200 {
			t.Fatalf("%q", state.Value)
		}
		if after, _, err = parse(t, "SW.ACQUIRE", "k", "1000000000000", "1", "1", "SLICES", "1000").Model(state, now+2); err != nil {
			t.Fatal(err)
		}
		state = after
	}
}

// TestSWAcquireMemory fills ten slices and the one that is leaving, and asks
// Redis what the key takes.
func TestSWAcquireMemory(t *testing.T) {
	s := redisStore(t)
	for i := range int64(25) {
		s.run(t, parse(t, strings.Fields("SW.ACQUIRE user:1234567890 1000000000 60000 90000000")...), someMicros+i*6_000_001)
	}
	var bytes int
	if _, err := fmt.Sscanf(s.Do("MEMORY", "USAGE", "user:1234567890"), ":%d", &bytes); err != nil || bytes < 200 || bytes > 512 {
		t.Errorf("%d bytes for %s", bytes, s.Do("GET", "user:1234567890"))
	}
}

func TestSWAcquireOnOtherValues(t *testing.T) {
	rejectsValues(t, swAcquire, "sw:", []string{
		"", "1 1900000000123456 1", "1 1900000000123456", "1 x 1 ", "x 1900000000123456 1 ", "1 1900000000123456 x ",
		"-1 1900000000123456 1 ", "9007199254740992 1900000000123456 1 ", "1 9007199254740992 1 ", "1 1900000000123456 9007199254740992 ",
		"2 1900000000123456 1 x", "2 1900000000123456 1 1900000000123456", "2 1900000000123456 1 1900000000123456:1",
		"2 1900000000123456 1 :1 ", "2 1900000000123456 1 1:1 1: ", "2 1900000000123456 1 9007199254740992:1 ", "2 1900000000123456 1 1:1  ",
	})
	acceptsValues(t, swAcquire, "sw:", []string{
		"0 0 0 ", "1 1900000000123456 1 ", "1 1900000000123456 01 ", "2 1900000000123456 1 1900000000123455:1 ", "1 1900000000123456 1 1:1 ",
		"1 1 1 anything", "5 9007199254740991 1 1900000000123455:1 x",
	})
}

func TestSWAcquireScriptAgreesWithModel(t *testing.T) {
	agreeOnRandomSteps(t, "SW.ACQUIRE", func(r *rand.Rand) (func() []string, int64) {
		w := randomWindow(r)
		return func() []string {
			words := append([]string{fmt.Sprint(w.limit), fmt.Sprint(w.micros / 1000)}, randomQuantity(r, w.limit)...)
			switch r.IntN(4) {
			case 0:
				words = append(words, "EXACT")
			case 1:
				words = append(words, "slices", fmt.Sprint(1+upTo(r, 12)))
			}
			return words
		}, w.micros / 5
	})
}

// TestSWAcquireExactAgainstALog compares with a log of what was admitted that is
// kept whole.
func TestSWAcquireExactAgainstALog(t *testing.T) {
	againstLog(t, "SW.ACQUIRE", func(_ *rand.Rand, w window) ([]string, logOracle) {
		return []string{"EXACT"}, func(log []admission, now int64) int64 {
			return sum(log, func(a admission) bool { return now-a.micros < w.micros })
		}
	})
}

// TestSWAcquireSlicesKeepTheLimit sees that no window has more than its limit,
// and that nothing is refused that would not be if everything had been admitted
// up to a slice later.
func TestSWAcquireSlicesKeepTheLimit(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	admitted, refused := 0, 0
	for range 2000 {
		slices := 1 + upTo(r, 20)
		w := window{limit: 1 + upTo(r, 20), micros: 1000 * (1 + upTo(r, 10_000))}
		slice := divideUp(w.micros, slices)
		var state State
		var log []admission
		for now := someMicros; now < someMicros+8*w.micros; now += 1 + r.Int64N(w.micros/4) {
			quantity := 1 + r.Int64N(1+r.Int64N(w.limit))
			words := fmt.Sprintf("SW.ACQUIRE k %d %d %d SLICES %d", w.limit, w.micros/1000, quantity, slices)
			after, reply, err := parse(t, strings.Fields(words)...).Model(state, now)
			if err != nil {
				t.Fatal(err)
			}
			state = after
			within := func(length int64) int64 {
				return sum(log, func(a admission) bool { return now-a.micros < length })
			}
			if reply[0] == 1 {
				refused++
				if within(w.micros+slice)+quantity <= w.limit {
					t.Fatalf("%s at %d: refused more than a slice early\nlog %+v", words, now, log)
				}
				continue
			}
			admitted++
			if log = append(log, admission{now, quantity}); within(w.micros) > w.limit {
				t.Fatalf("%s at %d: admitted beyond the limit\nlog %+v", words, now, log)
			}
		}
	}
	if admitted < 1000 || refused < 1000 {
		t.Errorf("%d admitted, %d refused", admitted, refused)
	}
}
