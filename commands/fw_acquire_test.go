package commands

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

const (
	limitRange  = "ERR limit must be between 1 and 1000000000000"
	windowRange = "ERR window_ms must be between 1 and 1000000000000"
)

func TestParseFWAcquire(t *testing.T) {
	parseErrors(t, "FW.ACQUIRE", map[string]string{
		"k 10 1000":                              "",
		"k 10 1000 0":                            "",
		"k 10 1000 -9223372036854775808":         "",
		"k 10 1000 9223372036854775807":          "",
		"k 10 1000 ALIGN":                        "",
		"k 10 1000 align -3600000":               "",
		"k 10 1000 1 Align 3600000":              "",
		"k 10 1000 1 ALIGN -9223372036854775808": "",
		"k 10 1000 1 ALIGN 9223372036854775807":  "",
		"k 1000000000000 1000000000000":          "",
		"k 0 1000":                               limitRange,
		"k -1 1000":                              limitRange,
		"k 1000000000001 1000":                   limitRange,
		"k 9223372036854775807 1000":             limitRange,
		"k 10 0":                                 windowRange,
		"k 10 9223372036854775807":               windowRange,
		"k 10 -1":                                windowRange,
		"k 10 x":                                 errNotInteger.Error(),
		"k 10 1000 1.5":                          errNotInteger.Error(),
		"k 10 1000 9223372036854775808":          errNotInteger.Error(),
		"k 10 1000 ALIGN x":                      errNotInteger.Error(),
		"k 10 1000 ALIGN 9223372036854775808":    errNotInteger.Error(),
		"k 10 1000 x":                            "ERR syntax error",
		"k 10 1000 1 1":                          "ERR syntax error",
		"k 10 1000 1 ALIGNED":                    "ERR syntax error",
		"k 10 1000 ALIGN 1 1":                    "ERR syntax error",
		"k 10 1000 EXACT":                        "ERR syntax error",
		"k 10 1000 1 ALIGN 1 1":                  arityText(fwAcquire),
		"k 10":                                   arityText(fwAcquire),
	})
}

func TestFWAcquireSteps(t *testing.T) {
	left := func(used, ends int64) string { return fmt.Sprintf("fw:%d %d", used, someMicros+ends) }
	const aligned = 1_900_000_001_000_000 - someMicros // the next whole second
	const tenYears = 315_360_000_000
	runSteps(t, "FW.ACQUIRE", map[string][]stepRow{
		"a window from the first request on": {
			{0, "3 1000 0", []int64{0, 3, 3, -1, 0}, "", 0},
			{0, "3 1000 4", []int64{1, 3, 3, -1, 0}, "", 0},
			{0, "3 1000 -1", []int64{0, 3, 3, -1, 0}, "", 0},
			{5, "3 1000", []int64{0, 3, 2, -1, 1000}, left(1, 1_000_005), 1000},
			{400_005, "3 1000 3", []int64{1, 3, 2, 600, 600}, left(1, 1_000_005), 1000},
			{400_006, "3 1000 2", []int64{0, 3, 0, -1, 600}, left(3, 1_000_005), 600},
			{400_006, "3 1000", []int64{1, 3, 0, 600, 600}, left(3, 1_000_005), 600},
			{999_005, "3 1000", []int64{1, 3, 0, 1, 1}, left(3, 1_000_005), 600},
			{1_000_004, "3 1000", []int64{1, 3, 0, 1, 1}, left(3, 1_000_005), 600},
			{1_000_005, "3 1000 0", []int64{0, 3, 3, -1, 0}, left(3, 1_000_005), 600},
			{1_000_005, "3 1000 3", []int64{0, 3, 0, -1, 1000}, left(3, 2_000_005), 1000},
		},
		"given back": {
			{0, "3 1000 3", []int64{0, 3, 0, -1, 1000}, left(3, 1e6), 1000},
			{1000, "3 1000 -2", []int64{0, 3, 2, -1, 999}, left(1, 1e6), 999},
			{1000, "3 1000 -2", []int64{0, 3, 3, -1, 999}, left(0, 1e6), 999},
			{2000, "3 1000 -2", []int64{0, 3, 3, -1, 998}, left(0, 1e6), 999},
			{2000, "3 1000 3", []int64{0, 3, 0, -1, 998}, left(3, 1e6), 998},
			{2000, "3 1000 -9223372036854775808", []int64{0, 3, 3, -1, 998}, left(0, 1e6), 998},
			{1e6, "3 1000 -1", []int64{0, 3, 3, -1, 0}, left(0, 1e6), 998},
		},
		"aligned": {
			{0, "3 1000 0 ALIGN", []int64{0, 3, 3, -1, 877}, "", 0},
			{0, "3 1000 4 ALIGN", []int64{1, 3, 3, -1, 877}, "", 0},
			{0, "3 1000 ALIGN", []int64{0, 3, 2, -1, 877}, left(1, aligned), 877},
			{aligned - 1, "3 1000 3 ALIGN", []int64{1, 3, 2, 1, 1}, left(1, aligned), 877},
			{aligned, "3 1000 3 ALIGN", []int64{0, 3, 0, -1, 1000}, left(3, aligned+1e6), 1000},
			{aligned + 999_999, "3 1000 ALIGN", []int64{1, 3, 0, 1, 1}, left(3, aligned+1e6), 1000},
			{aligned + 5e6 + 1, "3 1000 ALIGN", []int64{0, 3, 2, -1, 1000}, left(1, aligned+6e6), 1000},
		},
		"days west and east of Greenwich": {
			// 1_900_000_000 is 17:46:40 UTC
			{0, "3 86400000 ALIGN", []int64{0, 3, 2, -1, 22399877}, left(1, 22399876544), 22399877},
			{0, "3 86400000 -1 ALIGN -3600000", []int64{0, 3, 3, -1, 22399877}, left(0, 22399876544), 22399877},
			{22399876544, "3 86400000 ALIGN -3600000", []int64{0, 3, 2, -1, 82800000}, left(1, 22399876544+82800e6), 82800000},
			{2e12, "3 86400000 0 ALIGN 3600000", []int64{0, 3, 3, -1, 13199877}, left(1, 22399876544+82800e6), 82800000},
			{2e12, "3 86400000 0 ALIGN 90000000", []int64{0, 3, 3, -1, 13199877}, left(1, 22399876544+82800e6), 82800000},
			{2e12, "3 86400000 0 ALIGN -82800000", []int64{0, 3, 3, -1, 13199877}, left(1, 22399876544+82800e6), 82800000},
		},
		"other parameters on the same state": {
			{0, "3 1000 3", []int64{0, 3, 0, -1, 1000}, left(3, 1e6), 1000},
			{0, "5 1000 2", []int64{0, 5, 0, -1, 1000}, left(5, 1e6), 1000},
			{0, "2 10", []int64{1, 2, 0, 1000, 1000}, left(5, 1e6), 1000},
			{0, "2 10 0", []int64{1, 2, 0, 1000, 1000}, left(5, 1e6), 1000},
			{0, "2 10 -2", []int64{0, 2, 0, -1, 1000}, left(3, 1e6), 1000},
			{0, "2 5000 -2 ALIGN", []int64{0, 2, 1, -1, 1000}, left(1, 1e6), 1000},
		},
		"the clock steps back": {
			{0, "3 1000 2", []int64{0, 3, 1, -1, 1000}, left(2, 1e6), 1000},
			{-60e6, "3 1000 2", []int64{1, 3, 1, 61000, 61000}, left(2, 1e6), 1000},
			{-60e6, "3 1000", []int64{0, 3, 0, -1, 61000}, left(3, 1e6), 61000},
		},
		"10^9 in a millisecond and in ten years": {
			{0, "1000000000 1 1000000000", []int64{0, 1e9, 0, -1, 1}, left(1e9, 1000), 1},
			{999, "1000000000 1", []int64{1, 1e9, 0, 1, 1}, left(1e9, 1000), 1},
			{1000, "1000000000 315360000000 1000000000", []int64{0, 1e9, 0, -1, tenYears}, left(1e9, tenYears*1000+1000), tenYears},
			{2001, "1000000000 315360000000 1", []int64{1, 1e9, 0, tenYears - 1, tenYears - 1}, left(1e9, tenYears*1000+1000), tenYears},
			{2001, "1000000000 315360000000 9223372036854775807", []int64{1, 1e9, 0, -1, tenYears - 1}, left(1e9, tenYears*1000+1000), tenYears},
		},
	})
}

func TestFWAcquireOnOtherValues(t *testing.T) {
	rejectsValues(t, fwAcquire, "fw:", []string{
		"", "1", "1 ", " 1900000000123456", "1 1900000000123456 ", "-1 1900000000123456", "1 -1", "1.5 1", "9007199254740992 1",
		"1 9007199254740992", "1 9007199254740993", "1  1",
	})
	acceptsValues(t, fwAcquire, "fw:", []string{"0 0", "1 1900000001123456", "010 01900000001123456", "9007199254740991 9007199254740991"})
}

func TestFWAcquireScriptAgreesWithModel(t *testing.T) {
	agreeOnRandomSteps(t, "FW.ACQUIRE", func(r *rand.Rand) (func() []string, int64) {
		w := randomWindow(r)
		return func() []string {
			words := append([]string{fmt.Sprint(w.limit), fmt.Sprint(w.micros / 1000)}, randomQuantity(r, w.limit)...)
			switch r.IntN(4) {
			case 0:
				words = append(words, "ALIGN")
			case 1:
				words = append(words, "align", fmt.Sprint((1-2*r.Int64N(2))*upTo(r, 4*w.micros/1000)))
			}
			return words
		}, w.micros / 5
	})
}

// TestFWAcquireAgainstALog compares with a log of what was admitted, that is
// searched for the requests of the same window.
func TestFWAcquireAgainstALog(t *testing.T) {
	againstLog(t, "FW.ACQUIRE", func(r *rand.Rand, w window) ([]string, logOracle) {
		if r.IntN(2) == 0 {
			offset := r.Int64N(4*w.micros/1000) - 2*w.micros/1000
			return []string{"ALIGN", fmt.Sprint(offset)}, func(log []admission, now int64) int64 {
				number := func(at int64) int64 { return (at - offset*1000 + 1000*w.micros) / w.micros }
				return sum(log, func(a admission) bool { return number(a.micros) == number(now) })
			}
		}
		return nil, func(log []admission, now int64) int64 {
			opened := int64(-w.micros)
			for _, a := range log {
				if a.micros-opened >= w.micros {
					opened = a.micros
				}
			}
			return sum(log, func(a admission) bool { return a.micros >= opened && now-opened < w.micros })
		}
	})
}
