package commands

import (
	_ "embed"
	"errors"
	"math"
	"math/big"
	"strconv"
	"time"

	"cellproxy/gcra"
)

//go:embed cl_throttle.lua
var clThrottleSource string

// clThrottle is the command of redis-cell, answered as redis-cell 0.5.0 does.
//
//	CL.THROTTLE key max_burst count period [quantity]
//
// It admits count units per period seconds, spread evenly, and max_burst more
// at once after a rest.
//
//	max_burst  0 to 2^53-1
//	count      at least 1
//	period     seconds, at least 1
//	quantity   units asked for, 1 if absent; 0 peeks, a negative number gives
//	           units back, but to no more than all
//
// The time in which everything comes back must fit 64-bit nanoseconds, which is
// 292 years, and so must the moment at which it has.
//
// The reply is five integers:
//
//  1. 0 if the request was admitted, 1 if it was limited
//  2. the limit, max_burst + 1
//  3. how many units may still be taken at once
//  4. seconds until this request would be admitted, -1 if it was or never will
//  5. seconds until everything is back
//
// The state is redis-cell's own: a string, the theoretical arrival time in
// decimal nanoseconds since the epoch, expiring when it has come. As there, a
// peek at a key without state leaves the present moment, for a millisecond.
var clThrottle = &Command{
	Name:     "CL.THROTTLE",
	Arity:    -5,
	maxWords: 6,
	Summary:  "Takes from a rate limit that comes back evenly (GCRA), as redis-cell does.",
	Usage:    "CL.THROTTLE key max_burst count period [quantity]",
	Arguments: []Argument{
		{Name: "key", Type: "key"},
		{Name: "max_burst", Type: "integer"},
		{Name: "count", Type: "integer"},
		{Name: "period", Type: "integer"},
		{Name: "quantity", Type: "integer", Optional: true},
	},
	Seconds: true,
	Script:  newScript(clThrottleSource),
	parse:   parseCLThrottle,
	model:   modelCLThrottle,
	refusal: refusalOfCLThrottle,
}

func parseCLThrottle(args [][]byte, call *Call) error {
	var burst, count, period int64
	call.quantity = 1
	if err := parseIntegers(args[2:], &burst, &count, &period, &call.quantity); err != nil {
		return err
	}
	switch {
	case burst < 0 || burst >= maxExact:
		return rangeError("max_burst", 0, maxExact-1)
	case count < 0:
		return rangeError("count", 1, math.MaxInt64)
	case period < 0:
		return rangeError("period", 1, math.MaxInt64)
	}
	interval, err := cellInterval(count, period)
	if err != nil {
		return err
	}
	return parseGCRA(call, interval, burst+1, cellUnit(interval))
}

// cellInterval returns the time between two units as redis-cell computes it: in
// floating point, which above 104 days is not always the whole nanoseconds of
// the true quotient.
func cellInterval(count, period int64) (time.Duration, error) {
	if count == 0 || period == 0 {
		return 0, errZeroRate
	}
	nanos := float64(period) * 1e9
	if period > maxExact { // float64 would round it before it rounds the product
		product := new(big.Int).Mul(big.NewInt(period), big.NewInt(1e9))
		nanos, _ = new(big.Float).SetInt(product).Float64()
	}
	interval := nanos / float64(count)
	switch {
	case interval >= math.MaxInt64:
		return 0, errOverflow
	case interval < 1:
		return 0, errZeroRate
	}
	return time.Duration(interval), nil
}

// cellUnit is what redis-cell counts the remaining units by: the whole
// microseconds of the interval. An interval of less than one, which redis-cell
// can't count by, is minus its nanoseconds.
func cellUnit(interval time.Duration) int64 {
	if interval < time.Microsecond {
		return -int64(interval)
	}
	return interval.Microseconds()
}

// cellRemaining returns how many units there are in what is left of the
// tolerance: redis-cell's quotient, in its floating point, but between 0 and
// the limit.
func cellRemaining(limit gcra.Limit, room time.Duration) int64 {
	switch {
	case limit.Interval() < time.Microsecond:
		return limit.Units(room)
	case room < 0:
		return 0
	}
	quotient := float64(room.Microseconds()) / float64(limit.Interval().Microseconds())
	return min(int64(quotient), limit.Burst())
}

// cellSeconds returns a time as redis-cell answers it: whole seconds, plus one
// if the milliseconds of the rest are not 0. The seconds are cut off a floating
// point number, which rounds up the last nanosecond of a long time.
func cellSeconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	seconds, nanos := int64(d/time.Second), d%time.Second
	if nanos < time.Millisecond {
		return seconds
	}
	return int64(float64(seconds)+float64(nanos)/1e9) + 1
}

func modelCLThrottle(call *Call, state State, nowMicros int64) (State, []int64, error) {
	tat, err := cellTAT(state)
	if err != nil {
		return state, nil, err
	}
	now := nowMicros * 1000
	next, result, err := call.limit.Next(tat, now, call.quantity)
	if errors.Is(err, gcra.ErrOverflow) {
		return state, nil, errOverflow
	}
	switch {
	case result.Limited, call.quantity == 0 && tat > now:
	case next > now || call.quantity == 0:
		ttlMillis := max(1, divideUp(next-now, 1e6))
		state = newState(strconv.FormatInt(next, 10), nowMicros, ttlMillis)
	default:
		state = State{}
	}
	reply := cellReply(call.limit, result)
	return state, reply[:], nil
}

func cellReply(limit gcra.Limit, result gcra.Result) [5]int64 {
	return [5]int64{
		limitedNumber(result.Limited),
		limit.Burst(),
		cellRemaining(limit, result.Room),
		cellSeconds(result.RetryAfter),
		cellSeconds(result.ResetAfter),
	}
}

// monotonous is up to where cellSeconds never goes down while a time goes up.
// Beyond, it makes a second too much of the last nanosecond of one, and none
// of the first of the next.
const monotonous = 1 << 23 * time.Second

func refusalOfCLThrottle(call *Call, state State, fromMicros, toMicros int64) (reply [5]int64, ok bool) {
	tat, err := cellTAT(state)
	if err != nil {
		return reply, false
	}
	_, first, _ := call.limit.Next(tat, fromMicros*1000, call.quantity)
	_, last, _ := call.limit.Next(tat, toMicros*1000, call.quantity)
	if !first.Limited || !last.Limited {
		return reply, false
	}
	if first.ResetAfter >= monotonous && (first.ResetAfter/time.Second != last.ResetAfter/time.Second ||
		first.RetryAfter/time.Second != last.RetryAfter/time.Second) {
		return reply, false
	}
	reply = cellReply(call.limit, first)
	return reply, reply == cellReply(call.limit, last)
}

// cellTAT reads redis-cell's state: 1 to 19 digits that fit an int64.
func cellTAT(state State) (int64, error) {
	if !state.Exists {
		return 0, nil
	}
	tat, err := strconv.ParseUint(state.Value, 10, 63)
	if err != nil || len(state.Value) > 19 {
		return 0, stateError("CL.THROTTLE")
	}
	return int64(tat), nil
}
