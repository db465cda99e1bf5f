package commands

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed sw_acquire.lua
var swAcquireSource string

// The slices of a window that SW.ACQUIRE counts in.
const (
	defaultSlices = 10
	maxSlices     = 1000
)

// sliceBytes is the most that one of the older slices takes in the state.
const sliceBytes = len("9007199254740991:1000000000000 ")

// swAcquire counts in a sliding window.
//
//	SW.ACQUIRE key limit window_ms [quantity] [SLICES n | EXACT]
//
// It admits no more than limit units in any window_ms. With SLICES, what is
// admitted within the n-th part of a window counts as admitted at the end of
// that, so that a request may be refused for as much longer than the limit asks
// for. With EXACT every admission counts from its own microsecond on, and the
// state grows with their number.
//
//	limit      units, 1 to 10^12
//	window_ms  milliseconds, 1 to 10^12
//	quantity   units asked for, 1 if absent; 0 peeks; none can be given back
//	n          1 to 1000, 10 if absent
//
// The reply is five integers:
//
//  1. 0 if the request was admitted, 1 if it was limited
//  2. limit
//  3. how many units may still be taken
//  4. milliseconds until this request would be admitted, -1 if it was or never
//     will
//  5. milliseconds until the window is empty
//
// The state is a string, "sw:" and the admissions as the script says, expiring
// when the window is empty. SLICES and EXACT may be used on the same key in turn.
var swAcquire = &Command{
	Name:     "SW.ACQUIRE",
	Arity:    -4,
	maxWords: 7,
	Summary:  "Takes from a limit per sliding window of time.",
	Usage:    "SW.ACQUIRE key limit window_ms [quantity] [SLICES n | EXACT]",
	Arguments: []Argument{
		{Name: "key", Type: "key"},
		{Name: "limit", Type: "integer"},
		{Name: "window_ms", Type: "integer"},
		{Name: "quantity", Type: "integer", Optional: true},
		{Name: "precision", Type: "oneof", Optional: true, Arguments: []Argument{
			{Name: "n", Type: "integer", Token: "SLICES"},
			{Name: "exact", Type: "pure-token", Token: "EXACT"},
		}},
	},
	Script: newScript(swAcquireSource),
	parse:  parseSWAcquire,
	model:  modelSWAcquire,
}

func parseSWAcquire(args [][]byte, call *Call) error {
	options, err := parseLimit(args, call)
	if err != nil {
		return err
	}
	slices, err := parseSlices(options)
	if err != nil {
		return err
	}
	if call.quantity < 0 {
		return errNegative
	}
	w := call.window
	call.slice, call.mostOlder = 0, 0
	if slices > 0 {
		call.slice = divideUp(w.micros, slices)
		call.mostOlder = (slices + 1) * int64(sliceBytes)
	}
	// More than the limit is as good as one more.
	call.argv = append(call.argv, min(call.quantity, w.limit+1), w.limit, w.micros, call.slice, call.mostOlder)
	return nil
}

// parseSlices reads SLICES n or EXACT, and returns the number of slices, 0 for
// an exact log.
func parseSlices(words [][]byte) (slices int64, err error) {
	switch {
	case len(words) == 0:
		return defaultSlices, nil
	case len(words) == 1 && equalFold(words[0], "EXACT"):
		return 0, nil
	case len(words) != 2 || !equalFold(words[0], "SLICES"):
		return 0, errSyntax
	}
	if slices, err = parseInteger(words[1]); err == nil && (slices < 1 || slices > maxSlices) {
		err = rangeError("n", 1, maxSlices)
	}
	return slices, err
}

// slicesState is the state of SW.ACQUIRE.
type slicesState struct {
	used, ends, count int64
	older             string
}

func modelSWAcquire(call *Call, state State, nowMicros int64) (State, []int64, error) {
	w := call.window
	s, ok := parseSlicesState(state)
	if !ok || !s.forget(w, nowMicros) {
		return state, nil, stateError("SW.ACQUIRE")
	}
	quantity := min(call.quantity, w.limit+1)
	limited, retryAfter := false, int64(-1)
	switch {
	case s.used+quantity > w.limit:
		limited = true
		if quantity <= w.limit {
			leaves, ok := s.leaves(s.used + quantity - w.limit)
			if !ok {
				return state, nil, stateError("SW.ACQUIRE")
			}
			retryAfter = microsUp(leaves + w.micros - nowMicros)
		}
	case quantity > 0:
		s.admit(quantity, nowMicros, call)
		state = newState(s.String(), nowMicros, microsUp(s.ends+w.micros-nowMicros))
	}
	resetAfter := int64(0)
	if s.ends > 0 {
		resetAfter = microsUp(s.ends + w.micros - nowMicros)
	}
	return state, []int64{limitedNumber(limited), w.limit, w.remaining(s.used), retryAfter, resetAfter}, nil
}

// String returns the state as the script writes it.
func (s *slicesState) String() string {
	return fmt.Sprintf("sw:%d %d %d %s", s.used, s.ends, s.count, s.older)
}

func parseSlicesState(state State) (s slicesState, ok bool) {
	if !state.Exists {
		return s, true
	}
	rest, known := strings.CutPrefix(state.Value, "sw:")
	used, rest, _ := strings.Cut(rest, " ")
	ends, rest, _ := strings.Cut(rest, " ")
	count, older, found := strings.Cut(rest, " ")
	s.older = older
	return s, known && found && parseDigits(used, &s.used) && parseDigits(ends, &s.ends) && parseDigits(count, &s.count)
}

// forget drops what has left the window. It reports false on what is no state.
func (s *slicesState) forget(w window, nowMicros int64) bool {
	if s.ends+w.micros <= nowMicros {
		*s = slicesState{}
	}
	for s.older != "" {
		ends, count, rest, ok := cutEntry(s.older)
		if !ok {
			return false
		}
		if ends+w.micros > nowMicros {
			break
		}
		s.used, s.older = max(s.used-count, 0), rest
	}
	return true
}

// leaves returns the end of the slice with which so many units will have left.
func (s *slicesState) leaves(units int64) (ends int64, ok bool) {
	for older := s.older; older != ""; {
		ends, count, rest, ok := cutEntry(older)
		if units -= count; !ok || units <= 0 {
			return ends, ok
		}
		older = rest
	}
	return s.ends, true
}

// admit counts units as admitted.
func (s *slicesState) admit(units, nowMicros int64, call *Call) {
	s.used += units
	if s.ends >= nowMicros {
		s.count += units
		return
	}
	if call.mostOlder > 0 && int64(len(s.older)) > call.mostOlder {
		s.count += units // slices of a shorter window: the newest is prolonged
	} else {
		if s.count > 0 {
			s.older += entry(s.ends, s.count)
		}
		s.count = units
	}
	s.ends = nowMicros + call.slice
}

// entry is so many units at a moment, in a list.
func entry(micros, units int64) string { return fmt.Sprintf("%d:%d ", micros, units) }

// cutEntry takes the first entry of a list.
func cutEntry(list string) (micros, units int64, rest string, ok bool) {
	first, rest, found := strings.Cut(list, " ")
	at, count, _ := strings.Cut(first, ":")
	ok = found && parseDigits(at, &micros) && parseDigits(count, &units)
	return micros, units, rest, ok
}
