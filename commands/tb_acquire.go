package commands

import _ "embed"

//go:embed tb_acquire.lua
var tbAcquireSource string

// tbAcquire is a token bucket.
//
//	TB.ACQUIRE key capacity refill_tokens refill_ms [quantity]
//
// A bucket holds capacity tokens at most and at first. Tokens drip into it
// evenly, refill_tokens every refill_ms, and a request takes quantity out of it,
// or is refused if there are fewer.
//
//	capacity       tokens, 1 to 10^12
//	refill_tokens  1 to 10^12
//	refill_ms      milliseconds, 1 to 10^12
//	quantity       tokens asked for, 1 if absent; 0 peeks, a negative number
//	               gives tokens back, but to no more than full
//
// The time in which an empty bucket fills must be at most 2^52 microseconds, 142
// years. The rate is exact: see gcra.Bucket.
//
// The reply is five integers:
//
//  1. 0 if the request was admitted, 1 if it was limited
//  2. capacity
//  3. how many whole tokens are in the bucket
//  4. milliseconds until this request would be admitted, -1 if it was or never
//     will
//  5. milliseconds until the bucket is full
//
// The state is a string, "tb:" and the moment at which the bucket is full, in
// microseconds since the epoch and a fraction of one, expiring when it has come.
// It is a time and no number of tokens: if the parameters change, what was taken
// so far takes as long to come back as it did before.
var tbAcquire = &Command{
	Name:     "TB.ACQUIRE",
	Arity:    -5,
	maxWords: 6,
	Summary:  "Takes tokens from a bucket that fills evenly.",
	Usage:    "TB.ACQUIRE key capacity refill_tokens refill_ms [quantity]",
	Arguments: []Argument{
		{Name: "key", Type: "key"},
		{Name: "capacity", Type: "integer"},
		{Name: "refill_tokens", Type: "integer"},
		{Name: "refill_ms", Type: "integer"},
		{Name: "quantity", Type: "integer", Optional: true},
	},
	Script: newScript(tbAcquireSource + bucketSource),
	parse:  parseBucket,
	model:  modelTBAcquire,
}

func modelTBAcquire(call *Call, state State, nowMicros int64) (State, []int64, error) {
	return modelBucket("tb:", call, state, nowMicros)
}
