package commands

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestParseBuckets(t *testing.T) {
	const refill = "ERR value is out of range, the whole capacity must come back within 142 years"
	for _, command := range []*Command{tbAcquire, lbAcquire} {
		between := func(argument int) string {
			return "ERR " + command.Arguments[argument].Name + " must be between 1 and 1000000000000"
		}
		parseErrors(t, command.Name, map[string]string{
			"k 10 5 1000":                          "",
			"k 10 5 1000 0":                        "",
			"k 10 5 1000 -9223372036854775808":     "",
			"k 10 5 1000 9223372036854775807":      "",
			"k 1000000000 1000000000 1":            "",
			"k 1000000000 1000000000 315360000000": "", // ten years
			"k 1000000000000 1000000000000 1":      "",
			"k 4503 1 1000000000000":               refill,
			"k 4 1 1000000000000":                  "",
			"k 5 1 1000000000000":                  refill,
			"k 0 5 1000":                           between(1),
			"k -1 5 1000":                          between(1),
			"k 1000000000001 5 1000":               between(1),
			"k 9223372036854775807 5 1000":         between(1),
			"k 10 0 1000":                          between(2),
			"k 10 9223372036854775807 1000":        between(2),
			"k 10 5 0":                             between(3),
			"k 10 5 -9223372036854775808":          between(3),
			"k 10 5 1000 9223372036854775808":      errNotInteger.Error(),
			"k x 5 1000":                           errNotInteger.Error(),
			"k 10 5 1000 1 1":                      arityText(command),
			"k 10 5":                               arityText(command),
		})
	}
}

// TestBucketSteps are the edges: of the same moment, of a microsecond, of what
// fits.
func TestBucketSteps(t *testing.T) {
	full := func(after int64, fraction string) string { return fmt.Sprintf("tb:%d %s", someMicros+after, fraction) }
	runSteps(t, "TB.ACQUIRE", map[string][]stepRow{
		"taken and full again": {
			{0, "10 5 1000 0", []int64{0, 10, 10, -1, 0}, "", 0},
			{0, "10 5 1000 11", []int64{1, 10, 10, -1, 0}, "", 0},
			{0, "10 5 1000 10", []int64{0, 10, 0, -1, 2000}, full(2e6, "0/1"), 2000},
			{0, "10 5 1000", []int64{1, 10, 0, 200, 2000}, full(2e6, "0/1"), 2000},
			{0, "10 5 1000 10", []int64{1, 10, 0, 2000, 2000}, full(2e6, "0/1"), 2000},
			{0, "10 5 1000 11", []int64{1, 10, 0, -1, 2000}, full(2e6, "0/1"), 2000},
			{199999, "10 5 1000", []int64{1, 10, 0, 1, 1801}, full(2e6, "0/1"), 2000},
			{200000, "10 5 1000", []int64{0, 10, 0, -1, 2000}, full(2.2e6, "0/1"), 2000},
			{2199999, "10 5 1000 10", []int64{1, 10, 9, 1, 1}, full(2.2e6, "0/1"), 2000},
			{2200000, "10 5 1000 10", []int64{0, 10, 0, -1, 2000}, full(4.2e6, "0/1"), 2000},
			{2200000, "10 5 1000 -3", []int64{0, 10, 3, -1, 1400}, full(3.6e6, "0/1"), 1400},
			{2200000, "10 5 1000 -8", []int64{0, 10, 10, -1, 0}, "", 0},
			{2200000, "10 5 1000 -8", []int64{0, 10, 10, -1, 0}, "", 0},
		},
		"a third of a microsecond": {
			{0, "2 3 1", []int64{0, 2, 1, -1, 1}, full(333, "1/3"), 1},
			{333, "2 3 1 2", []int64{1, 2, 1, 1, 1}, full(333, "1/3"), 1},
			{334, "2 3 1 2", []int64{0, 2, 0, -1, 1}, full(1000, "2/3"), 1},
			{1000, "2 3 1 -1", []int64{0, 2, 2, -1, 0}, "", 0},
		},
		"other parameters on the same state": {
			{0, "10 5 1000 10", []int64{0, 10, 0, -1, 2000}, full(2e6, "0/1"), 2000},
			{0, "20 5 1000 0", []int64{0, 20, 10, -1, 2000}, full(2e6, "0/1"), 2000},
			{0, "1 1 1000", []int64{1, 1, 0, 2000, 2000}, full(2e6, "0/1"), 2000},
			{0, "3 3 1000 -1", []int64{0, 3, 0, -1, 1667}, full(1666666, "2/3"), 1667},
			{0, "7 7 1000 -1", []int64{0, 7, 0, -1, 1524}, full(1523809, "6/7"), 1524},
		},
		"the clock steps back": {
			{0, "10 5 1000 10", []int64{0, 10, 0, -1, 2000}, full(2e6, "0/1"), 2000},
			{-60e6, "10 5 1000", []int64{1, 10, 0, 60200, 62000}, full(2e6, "0/1"), 2000},
			{-60e6, "10 5 1000 -10", []int64{0, 10, 0, -1, 60000}, full(0, "0/1"), 60000},
		},
		"10^9 per millisecond": {
			{0, "1000000000 1000000000 1 1000000000", []int64{0, 1e9, 0, -1, 1}, full(1000, "0/1000000"), 1},
			{0, "1000000000 1000000000 1 1", []int64{1, 1e9, 0, 1, 1}, full(1000, "0/1000000"), 1},
			{1, "1000000000 1000000000 1 1000000", []int64{0, 1e9, 0, -1, 1}, full(1001, "0/1000000"), 1},
			{1, "1000000000 1000000000 1 1", []int64{1, 1e9, 0, 1, 1}, full(1001, "0/1000000"), 1},
			{2, "1000000000 1000000000 1 1", []int64{0, 1e9, 999999, -1, 1}, full(1001, "1/1000000"), 1},
		},
		"10^9 per ten years": {
			{0, "1000000000 1000000000 315360000000 1000000000", []int64{0, 1e9, 0, -1, 315360000000}, full(315360000000000, "0/1"), 315360000000},
			{0, "1000000000 1000000000 315360000000 1", []int64{1, 1e9, 0, 316, 315360000000}, full(315360000000000, "0/1"), 315360000000},
			{315360, "1000000000 1000000000 315360000000 1", []int64{0, 1e9, 0, -1, 315360000000}, full(315360000315360, "0/1"), 315360000000},
		},
		"quantities of any size": {
			{0, "10 5 1000 9223372036854775807", []int64{1, 10, 10, -1, 0}, "", 0},
			{0, "10 5 1000 -9223372036854775808", []int64{0, 10, 10, -1, 0}, "", 0},
			{0, "10 5 1000 4", []int64{0, 10, 6, -1, 800}, full(8e5, "0/1"), 800},
			{0, "10 5 1000 9223372036854775807", []int64{1, 10, 6, -1, 800}, full(8e5, "0/1"), 800},
			{0, "10 5 1000 -9223372036854775808", []int64{0, 10, 10, -1, 0}, "", 0},
		},
	})
}

func TestBucketOnOtherValues(t *testing.T) {
	for _, command := range []*Command{tbAcquire, lbAcquire} {
		prefix := map[*Command]string{tbAcquire: "tb:", lbAcquire: "lb:"}[command]
		rejectsValues(t, command, prefix, []string{
			"", "1900000000123456", "1900000000123456 ", "1900000000123456 0", "1900000000123456 0/", "1900000000123456 0/0",
			"1900000000123456 1/1", "1900000000123456 -1/1", "-1900000000123456 0/1", " 1900000000123456 0/1",
			"1900000000123456 0/1 ", "1900000000123456 0/1x", "1.9e15 0/1", "9007199254740992 0/1", "0x10 0/1",
			"1900000000123456  0/1", "1900000000123456 0/18446744073709551616", "nan 0/1",
		})
		acceptsValues(t, command, prefix, []string{
			"1900000000123456 0/1", "0 0/1", "01900000000123456 00/01", "9007199254740991 2/3", "1900000000123456 2/9007199254740991",
		})
	}
}

func TestBucketScriptsAgreeWithModels(t *testing.T) {
	agreeOnRandomSteps(t, "TB.ACQUIRE", randomBucket)
	agreeOnRandomSteps(t, "LB.ACQUIRE", randomBucket)
}

// randomBucket draws buckets of every order of magnitude.
func randomBucket(r *rand.Rand) (words func() []string, paceMicros int64) {
	capacity, units, perMillis := 1+upTo(r, 30), 1+upTo(r, 100), 1+upTo(r, 100_000)
	switch r.IntN(6) {
	case 0: // many units per microsecond
		capacity, units, perMillis = 1+upTo(r, 1e12), 1+upTo(r, 1e12), 1+upTo(r, 1000)
	case 1: // decades
		capacity, units, perMillis = 1+upTo(r, 1e9), 1+upTo(r, 1e9), 1+upTo(r, maxCount)
	}
	fill := int64(float64(capacity) * float64(perMillis) * 1000 / float64(units))
	return func() []string {
		words := []string{fmt.Sprint(capacity), fmt.Sprint(units), fmt.Sprint(perMillis)}
		return append(words, randomQuantity(r, capacity)...)
	}, min(fill, 1e15)/10 + 2
}
