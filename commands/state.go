package commands

import (
	"strconv"
	"time"
)

// State is what the upstream holds under a limiter's key. The zero State is no
// key at all.
type State struct {
	// Exists says whether there is such a key.
	Exists bool
	// Value is the string it holds.
	Value string
	// ExpiresAt is the moment, in milliseconds since the epoch, after which the
	// key is gone.
	ExpiresAt int64
}

// Expired reports whether the key is gone at a moment in microseconds since the
// epoch. To the models a state means nothing by then, whether it is there or
// not; a store that uses them may so drop it when it likes.
func (s State) Expired(nowMicros int64) bool {
	return s.Exists && nowMicros/1000 > s.ExpiresAt
}

// Model answers the call in Go: given what the key holds, at a moment in
// microseconds since the epoch, it returns what the key then holds and the
// reply. It does what the script does, to the last digit, and touches nothing.
// An error's text is the complete Redis error; the state is then unchanged.
func (c *Call) Model(state State, nowMicros int64) (State, []int64, error) {
	return c.command.model(c, state, nowMicros)
}

// newState is a state that lasts ttlMillis from now.
func newState(value string, nowMicros, ttlMillis int64) State {
	return State{Exists: true, Value: value, ExpiresAt: nowMicros/1000 + ttlMillis}
}

// divideUp returns a/b, rounded up, for both positive or a 0.
func divideUp(a, b int64) int64 {
	return a/b + min(a%b, 1)
}

// parseDigits reads a number of a state: digits only, and below maxExact.
func parseDigits(text string, number *int64) bool {
	n, err := strconv.ParseUint(text, 10, 63)
	*number = int64(n)
	return err == nil && n < maxExact
}

// limitedNumber is the first number of a reply.
func limitedNumber(limited bool) int64 {
	if limited {
		return 1
	}
	return 0
}

// millisUp returns a time in milliseconds, rounded up, or -1 if it is negative.
func millisUp(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return divideUp(int64(d), int64(time.Millisecond))
}
