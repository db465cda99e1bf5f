package commands

import (
	_ "embed"
	"errors"
	"math"
	"strconv"
	"time"

	"cellproxy/gcra"
)

//go:embed cl_throttle.lua
var clThrottleSource string

// clThrottle is redis-cell's command, answered as version 0.5.0 answers it.
//
//	CL.THROTTLE key max_burst count period [quantity]
//
// max_burst is how many units beyond the first are admitted at once, 0 or more;
// count units are admitted per period, in seconds, both 1 or more; quantity is
// how many are asked for, 1 by default. 0 only asks; a negative one gives back,
// never beyond full. The reply is five integers:
//
//  1. 0 admitted, 1 limited
//  2. the limit: max_burst + 1
//  3. units that remain
//  4. seconds until a retry may succeed, -1 if admitted or if it never will
//  5. seconds until the limiter is idle
//
// The state is redis-cell's own: the theoretical arrival time in nanoseconds
// since the epoch, in decimal, which expires when it has come.
var clThrottle = &Command{
	Name:    "CL.THROTTLE",
	Arity:   -5,
	Summary: "Limits a rate by GCRA, as redis-cell does.",
	Usage:   "CL.THROTTLE key max_burst count period [quantity]",
	Script:  newScript(clThrottleSource),
	parse:   parseThrottle,
	model:   modelThrottle,
}

const nanosPerSecond = int64(time.Second)

func parseThrottle(args [][]byte, call *Call) error {
	if len(args) > 6 {
		return arityError("CL.THROTTLE")
	}
	numbers := [4]int64{3: 1}
	for i, arg := range args[2:] {
		n, err := integer(arg)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	limit, err := throttleLimit(numbers[0], numbers[1], numbers[2])
	if err != nil {
		return err
	}
	increment, err := limit.Increment(numbers[3])
	if err != nil {
		return errRange
	}
	incrementS, incrementNs := split(int64(increment))
	toleranceS, toleranceNs := split(int64(limit.Tolerance()))
	call.limit, call.quantity = limit, numbers[3]
	call.argv = append(call.argv, incrementS, incrementNs, toleranceS, toleranceNs, limit.Capacity(), unit(limit))
	return nil
}

// throttleLimit makes a limit of whole seconds, with the errors that clients
// are told.
func throttleLimit(burst, count, period int64) (gcra.Limit, error) {
	if period > math.MaxInt64/nanosPerSecond {
		return gcra.Limit{}, errRange
	}
	limit, err := gcra.New(burst, count, time.Duration(period)*time.Second)
	switch {
	case errors.Is(err, gcra.ErrNegative):
		return limit, errNegative
	case errors.Is(err, gcra.ErrZeroRate):
		return limit, errZeroRate
	case err != nil:
		return limit, errRange
	}
	return limit, nil
}

// split separates whole seconds, which a Lua number holds exactly, from the
// nanoseconds, 0 or more.
func split(nanos int64) (s, ns int64) {
	s, ns = nanos/nanosPerSecond, nanos%nanosPerSecond
	if ns < 0 {
		s, ns = s-1, ns+nanosPerSecond
	}
	return s, ns
}

// unit is what remaining time is divided by: the emission interval in whole
// microseconds, as redis-cell does, or where it has none in nanoseconds,
// negative to tell them apart.
func unit(limit gcra.Limit) int64 {
	if micros := limit.Interval().Microseconds(); micros > 0 {
		return micros
	}
	return -int64(limit.Interval())
}

// modelThrottle is the script in Go.
func modelThrottle(call *Call, state State, nowMicros int64) (State, []int64, error) {
	if state.ExpiresMicros <= nowMicros {
		state = State{}
	}
	tat, err := parseTAT(state.Value)
	if err != nil {
		return state, nil, err
	}
	now := nowMicros * 1000
	next, result, err := call.limit.Next(tat, now, call.quantity)
	if err != nil {
		return state, nil, errRange
	}
	reply := []int64{0, call.limit.Capacity(), result.Remaining, -1, wireSeconds(result.ResetAfter)}
	if !result.Limited {
		return throttleState(state, next, now, call.quantity), reply, nil
	}
	reply[0] = 1
	if result.RetryAfter >= 0 {
		reply[3] = wireSeconds(result.RetryAfter)
	}
	return state, reply, nil
}

// throttleState is what an admitted request leaves. redis-cell stores the
// present where nothing is in use and nothing asked for; with tokens given back
// until full there is no state.
func throttleState(before State, next, now, quantity int64) State {
	value := strconv.FormatInt(next, 10)
	if value == before.Value {
		return before
	}
	if next == now && quantity < 0 {
		return State{}
	}
	ttlMillis := max((next-now+999_999)/1_000_000, 1)
	return State{Value: value, ExpiresMicros: now/1000 + ttlMillis*1000}
}

// wireSeconds is a time as the reply has it: whole seconds, and one more for a
// part of a second that has whole milliseconds.
func wireSeconds(d time.Duration) int64 {
	s, ns := split(int64(d))
	if ns >= 1_000_000 {
		s++
	}
	return s
}

var errNotTAT = errors.New("ERR the key holds no CL.THROTTLE state")

// parseTAT reads a stored state; none is 0.
func parseTAT(value string) (int64, error) {
	if value == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		return 0, errNotTAT
	}
	return int64(n), nil
}
