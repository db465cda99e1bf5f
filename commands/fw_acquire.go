package commands

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed fw_acquire.lua
var fwAcquireSource string

// fwAcquire counts in fixed windows.
//
//	FW.ACQUIRE key limit window_ms [quantity] [ALIGN [offset_ms]]
//
// It admits limit units in each window of window_ms. A window starts with the
// first request that is admitted after the one before it has ended; with ALIGN,
// windows follow each other without gaps, and start at the multiples of
// window_ms since the epoch plus offset_ms: with 86400000 and -3600000 they are
// the days of a place one hour ahead of UTC.
//
//	limit      units, 1 to 10^12
//	window_ms  milliseconds, 1 to 10^12
//	quantity   units asked for, 1 if absent; 0 peeks, a negative number gives
//	           units back, but no more than were taken
//	offset_ms  milliseconds, any, 0 if absent
//
// The reply is five integers:
//
//  1. 0 if the request was admitted, 1 if it was limited
//  2. limit
//  3. how many units may still be taken in this window
//  4. milliseconds until this request would be admitted, -1 if it was or never
//     will
//  5. milliseconds until the window ends, 0 if none has started
//
// The state is a string, "fw:", the units taken and the moment in microseconds
// since the epoch at which the window ends, expiring then. A window that has
// started keeps its end when the parameters change.
var fwAcquire = &Command{
	Name:     "FW.ACQUIRE",
	Arity:    -4,
	maxWords: 7,
	Summary:  "Takes from a limit per fixed window of time.",
	Usage:    "FW.ACQUIRE key limit window_ms [quantity] [ALIGN [offset_ms]]",
	Arguments: []Argument{
		{Name: "key", Type: "key"},
		{Name: "limit", Type: "integer"},
		{Name: "window_ms", Type: "integer"},
		{Name: "quantity", Type: "integer", Optional: true},
		{Name: "align", Type: "block", Optional: true, Arguments: []Argument{
			{Name: "align", Type: "pure-token", Token: "ALIGN"},
			{Name: "offset_ms", Type: "integer", Optional: true},
		}},
	},
	Script: newScript(fwAcquireSource),
	parse:  parseFWAcquire,
	model:  modelFWAcquire,
}

func parseFWAcquire(args [][]byte, call *Call) error {
	options, err := parseLimit(args, call)
	if err != nil {
		return err
	}
	w := call.window
	call.start = -1
	if len(options) > 0 {
		if call.start, err = parseAlign(options, w); err != nil {
			return err
		}
	}
	// More than the limit is as good as one more, on both sides.
	quantity := max(min(call.quantity, w.limit+1), -maxCount)
	call.argv = append(call.argv, quantity, w.limit, w.micros, call.start)
	return nil
}

// parseAlign reads ALIGN [offset_ms] and returns the first moment of a window
// after the epoch, in microseconds.
func parseAlign(words [][]byte, w window) (start int64, err error) {
	var offsetMillis int64
	if !equalFold(words[0], "ALIGN") || len(words) > 2 {
		return 0, errSyntax
	}
	if err := parseIntegers(words[1:], &offsetMillis); err != nil {
		return 0, err
	}
	millis := w.micros / 1000
	return (offsetMillis%millis + millis) % millis * 1000, nil
}

func modelFWAcquire(call *Call, state State, nowMicros int64) (State, []int64, error) {
	used, ends, err := fwState(state)
	if err != nil {
		return state, nil, err
	}
	w := call.window
	if ends <= nowMicros {
		used, ends = 0, nowMicros
		if call.start >= 0 {
			ends += w.micros - (nowMicros-call.start+w.micros)%w.micros
		}
	}
	limited, retryAfter := false, int64(-1)
	switch {
	case call.quantity > w.remaining(used) || call.quantity == 0 && used > w.limit:
		limited = true
		if call.quantity <= w.limit {
			retryAfter = microsUp(ends - nowMicros)
		}
	case call.quantity > 0 || call.quantity < 0 && used > 0:
		used = max(used+max(call.quantity, -maxCount), 0)
		if ends == nowMicros {
			ends += w.micros
		}
		state = newState(fmt.Sprintf("fw:%d %d", used, ends), nowMicros, microsUp(ends-nowMicros))
	}
	return state, []int64{limitedNumber(limited), w.limit, w.remaining(used), retryAfter, microsUp(ends - nowMicros)}, nil
}

// fwState reads what was taken, and when the window ends.
func fwState(state State) (used, ends int64, err error) {
	if !state.Exists {
		return 0, 0, nil
	}
	rest, known := strings.CutPrefix(state.Value, "fw:")
	count, end, _ := strings.Cut(rest, " ")
	if !known || !parseDigits(count, &used) || !parseDigits(end, &ends) {
		return 0, 0, stateError("FW.ACQUIRE")
	}
	return used, ends, nil
}
