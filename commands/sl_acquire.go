package commands

import (
	_ "embed"
	"math"
	"strings"
)

//go:embed sl_acquire.lua
var slAcquireSource string

// maxWindows is how many windows SL.ACQUIRE takes.
const maxWindows = 16

// slAcquire keeps several limits at once.
//
//	SL.ACQUIRE key quantity limit window_ms [limit window_ms ...]
//
// It admits no more than each limit in any of the window_ms beside it: all or
// nothing. Every admission counts from its own microsecond on; the state grows
// with the number of admissions in the longest window.
//
//	quantity   units asked for; 0 peeks; none can be given back
//	limit      units, 1 to 10^12
//	window_ms  milliseconds, 1 to 10^12; up to 16 windows
//
// The reply is six integers, the first five about one of the windows: the one
// that refuses, for the longest time if there are more of them, and else the one
// that has the least left.
//
//  1. 0 if the request was admitted, 1 if it was limited
//  2. the limit
//  3. how many units may still be taken from it
//  4. milliseconds until this request would be admitted, -1 if it was or never
//     will
//  5. milliseconds until the window is empty
//  6. which window refuses, counted from 0 as given, or -1 if none does
//
// The state is a string, "sl:" and the log, expiring when the longest window is
// empty.
var slAcquire = &Command{
	Name:     "SL.ACQUIRE",
	Arity:    -5,
	maxWords: 3 + 2*maxWindows,
	Summary:  "Takes from limits per several sliding windows of time, all or nothing.",
	Usage:    "SL.ACQUIRE key quantity limit window_ms [limit window_ms ...]",
	Arguments: []Argument{
		{Name: "key", Type: "key"},
		{Name: "quantity", Type: "integer"},
		{Name: "window", Type: "block", Multiple: true, Arguments: []Argument{
			{Name: "limit", Type: "integer"},
			{Name: "window_ms", Type: "integer"},
		}},
	},
	Script: newScript(slAcquireSource),
	parse:  parseSLAcquire,
	model:  modelSLAcquire,
}

func parseSLAcquire(args [][]byte, call *Call) error {
	if err := parseIntegers(args[2:3], &call.quantity); err != nil {
		return err
	}
	pairs := args[3:]
	if len(pairs)%2 != 0 {
		return errSyntax
	}
	if call.quantity < 0 {
		return errNegative
	}
	// More than any limit is as good as one more than the largest.
	call.argv = append(call.argv, min(call.quantity, maxCount+1))
	for ; len(pairs) > 0; pairs = pairs[2:] {
		w, err := parseWindow(pairs)
		if err != nil {
			return err
		}
		call.windows = append(call.windows, w)
		call.argv = append(call.argv, w.limit, w.micros)
	}
	return nil
}

// logEntry is so many units at a moment.
type logEntry struct{ micros, units int64 }

func modelSLAcquire(call *Call, state State, nowMicros int64) (State, []int64, error) {
	log, ok := parseLog(state)
	if !ok {
		return state, nil, stateError("SL.ACQUIRE")
	}
	quantity := min(call.quantity, maxCount+1)
	shown, wait := worstWindow(call.windows, log, nowMicros, quantity)
	if wait > 0 {
		w := call.windows[shown]
		retryAfter := int64(-1)
		if wait < never {
			retryAfter = microsUp(wait)
		}
		return state, []int64{1, w.limit, w.remaining(w.used(log, nowMicros)), retryAfter, w.resetAfter(log, nowMicros), int64(shown)}, nil
	}
	if quantity > 0 {
		log = admitted(log, nowMicros, quantity)
		longest := window{}
		for _, w := range call.windows {
			longest.micros = max(longest.micros, w.micros)
		}
		state = newState(logText(log, longest, nowMicros), nowMicros, longest.resetAfter(log, nowMicros))
		shown, _ = worstWindow(call.windows, log, nowMicros, 0)
	}
	w := call.windows[shown]
	return state, []int64{0, w.limit, w.remaining(w.used(log, nowMicros)), -1, w.resetAfter(log, nowMicros), -1}, nil
}

// never is longer than any wait.
const never = math.MaxInt64

// worstWindow returns the first window that refuses for longest, and for how
// many microseconds; or, if none does, the first that has the least left.
func worstWindow(windows []window, log []logEntry, nowMicros, quantity int64) (worst int, wait int64) {
	least := int64(math.MaxInt64)
	for i, w := range windows {
		left := w.limit - w.used(log, nowMicros)
		switch longer := w.wait(log, nowMicros, quantity-left); {
		case longer > wait:
			worst, wait = i, longer
		case wait == 0 && left < least:
			worst, least = i, left
		}
	}
	return worst, wait
}

// used is what counts in a window.
func (w window) used(log []logEntry, nowMicros int64) (units int64) {
	for _, e := range log {
		if e.micros+w.micros > nowMicros {
			units += e.units
		}
	}
	return units
}

// wait is the time until so many units have left the window.
func (w window) wait(log []logEntry, nowMicros, units int64) int64 {
	if units <= 0 {
		return 0
	}
	for _, e := range log {
		if leaves := e.micros + w.micros - nowMicros; leaves > 0 {
			if units -= e.units; units <= 0 {
				return leaves
			}
		}
	}
	return never
}

// resetAfter is the time until nothing counts in a window, in milliseconds.
func (w window) resetAfter(log []logEntry, nowMicros int64) int64 {
	if len(log) == 0 {
		return 0
	}
	return microsUp(max(log[len(log)-1].micros+w.micros-nowMicros, 0))
}

// admitted returns the log with so many units more. They count as of the newest
// entry if that is of the same moment or the clock has stepped back since.
func admitted(log []logEntry, nowMicros, units int64) []logEntry {
	if last := len(log) - 1; last >= 0 && log[last].micros >= nowMicros {
		log[last].units += units
		return log
	}
	return append(log, logEntry{nowMicros, units})
}

// parseLog reads what logText wrote.
func parseLog(state State) (log []logEntry, ok bool) {
	if !state.Exists {
		return nil, true
	}
	rest, ok := strings.CutPrefix(state.Value, "sl:")
	for ok && rest != "" {
		var e logEntry
		e.micros, e.units, rest, ok = cutEntry(rest)
		log = append(log, e)
	}
	return log, ok
}

// logText is the state: what counts in the longest window. What is in front of
// an entry that does, counts too.
func logText(log []logEntry, longest window, nowMicros int64) string {
	first := 0
	for i, e := range log {
		if e.micros+longest.micros <= nowMicros {
			first = i + 1
		}
	}
	var text strings.Builder
	text.WriteString("sl:")
	for _, e := range log[first:] {
		text.WriteString(entry(e.micros, e.units))
	}
	return text.String()
}
