package commands

import _ "embed"

//go:embed lb_acquire.lua
var lbAcquireSource string

// lbAcquire is a leaky bucket: TB.ACQUIRE, told by what is in the bucket instead
// of what is missing.
//
//	LB.ACQUIRE key capacity leak_units leak_ms [quantity]
//
// A bucket holds capacity units at most and none at first. It leaks evenly,
// leak_units every leak_ms, and a request pours quantity into it, or is refused
// if that would overflow.
//
//	capacity    units, 1 to 10^12
//	leak_units  1 to 10^12
//	leak_ms     milliseconds, 1 to 10^12
//	quantity    units to pour, 1 if absent; 0 peeks, a negative number takes
//	            units out again, but to no less than none
//
// The time in which a full bucket empties must be at most 2^52 microseconds, 142
// years. The rate is exact: see gcra.Bucket.
//
// The reply is five integers:
//
//  1. 0 if the request was admitted, 1 if it was limited
//  2. capacity
//  3. how many whole units there is room for
//  4. milliseconds until this request would be admitted, -1 if it was or never
//     will
//  5. milliseconds until the bucket is empty
//
// The state is that of TB.ACQUIRE but for its name: "lb:" and the moment at which
// the bucket is empty.
var lbAcquire = &Command{
	Name:     "LB.ACQUIRE",
	Arity:    -5,
	maxWords: 6,
	Summary:  "Pours into a bucket that leaks evenly and must not overflow.",
	Usage:    "LB.ACQUIRE key capacity leak_units leak_ms [quantity]",
	Arguments: []Argument{
		{Name: "key", Type: "key"},
		{Name: "capacity", Type: "integer"},
		{Name: "leak_units", Type: "integer"},
		{Name: "leak_ms", Type: "integer"},
		{Name: "quantity", Type: "integer", Optional: true},
	},
	Script: newScript(lbAcquireSource + bucketSource),
	parse:  parseBucket,
	model:  modelLBAcquire,
}

func modelLBAcquire(call *Call, state State, nowMicros int64) (State, []int64, error) {
	return modelBucket("lb:", call, state, nowMicros)
}
