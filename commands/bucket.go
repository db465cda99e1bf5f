package commands

import (
	_ "embed"
	"strconv"
	"strings"
	"time"

	"cellproxy/gcra"
)

// bucketSource is the body of the scripts of TB.ACQUIRE and LB.ACQUIRE, which
// are one algorithm.
//
//go:embed bucket.lua
var bucketSource string

// parseBucket fills the call of a bucket:
//
//	command key capacity units per_ms [quantity]
func parseBucket(args [][]byte, call *Call) error {
	var capacity, units, perMillis int64
	call.quantity = 1
	if err := parseIntegers(args[2:], &capacity, &units, &perMillis, &call.quantity); err != nil {
		return err
	}
	for i, n := range [...]int64{capacity, units, perMillis} {
		if n < 1 || n > maxCount {
			return rangeError(call.command.Arguments[1+i].Name, 1, maxCount)
		}
	}
	bucket, err := gcra.NewBucket(capacity, units, perMillis*1000)
	if err != nil {
		return errRefill
	}
	call.bucket = bucket
	call.argv = append(call.argv, bucket.Increment(call.quantity), bucket.Interval(), bucket.PerMicro(), capacity)
	return nil
}

// modelBucket answers for a bucket whose state begins with prefix.
func modelBucket(prefix string, call *Call, state State, nowMicros int64) (State, []int64, error) {
	tat, err := bucketTAT(prefix, call, state)
	if err != nil {
		return state, nil, err
	}
	tat, result := call.bucket.Next(tat, nowMicros, call.quantity)
	if !result.Limited && call.quantity != 0 {
		if tat.Micros >= maxExact {
			return state, nil, errMoment
		}
		state = bucketState(prefix, tat, nowMicros, result.ResetAfter)
	}
	return state, []int64{
		limitedNumber(result.Limited),
		call.bucket.Capacity(),
		result.Remaining,
		millisUp(result.RetryAfter),
		millisUp(result.ResetAfter),
	}, nil
}

// bucketState is the state of a bucket that is as if nothing had happened after
// a time.
func bucketState(prefix string, tat gcra.TAT, nowMicros int64, resetAfter time.Duration) State {
	if resetAfter == 0 {
		return State{}
	}
	value := append([]byte(nil), prefix...)
	value = strconv.AppendInt(value, tat.Micros, 10)
	value = append(value, ' ')
	value = strconv.AppendInt(value, tat.Ticks, 10)
	value = append(value, '/')
	value = strconv.AppendInt(value, tat.PerMicro, 10)
	return newState(string(value), nowMicros, millisUp(resetAfter))
}

// bucketTAT reads what bucketState wrote.
func bucketTAT(prefix string, call *Call, state State) (tat gcra.TAT, err error) {
	if !state.Exists {
		return tat, nil
	}
	rest, known := strings.CutPrefix(state.Value, prefix)
	micros, rest, _ := strings.Cut(rest, " ")
	ticks, perMicro, _ := strings.Cut(rest, "/")
	if !known || !parseDigits(micros, &tat.Micros) || !parseDigits(ticks, &tat.Ticks) ||
		!parseDigits(perMicro, &tat.PerMicro) || tat.Ticks >= tat.PerMicro {
		return gcra.TAT{}, stateError(call.command.Name)
	}
	return tat, nil
}
