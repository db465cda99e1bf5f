// Package gcra is the generic cell rate algorithm in exact integer nanoseconds.
//
// A key's whole state is its theoretical arrival time (TAT): the moment, in
// nanoseconds since the epoch, at which nothing is left of what was taken. A
// TAT that is not after the present means the same as none at all. Every unit
// taken moves the TAT one emission interval into the future, and a request is
// refused if that would move it further ahead of the present than the
// tolerance, which is one interval for each unit of burst.
//
// The package holds no state, reads no clock and does no I/O. A token bucket
// and a leaky bucket are the same thing seen from two sides: of a capacity of
// 16, refilled or drained one per 2 s, New(2*time.Second, 16) is the limit.
package gcra

import (
	"errors"
	"math"
	"math/bits"
	"time"
)

// Errors of New and Next.
var (
	// ErrInterval says that an emission interval is not positive.
	ErrInterval = errors.New("gcra: the emission interval must be positive")
	// ErrBurst says that a burst is not positive.
	ErrBurst = errors.New("gcra: the burst must be positive")
	// ErrOverflow says that a time does not fit int64 nanoseconds.
	ErrOverflow = errors.New("gcra: time beyond int64 nanoseconds")
)

// Limit says how many units may be taken at once and how fast they come back.
// Make it with New; the zero Limit has nothing to take.
type Limit struct {
	interval  int64
	burst     int64
	tolerance int64 // interval * burst
}

// New returns the limit of at most burst units at once, one of which comes back
// every interval. Both must be positive and their product, the time in which
// all come back, must fit int64 nanoseconds, which is 292 years.
func New(interval time.Duration, burst int64) (Limit, error) {
	switch {
	case interval <= 0:
		return Limit{}, ErrInterval
	case burst <= 0:
		return Limit{}, ErrBurst
	}
	tolerance, ok := multiply(int64(interval), burst)
	if !ok {
		return Limit{}, ErrOverflow
	}
	return Limit{interval: int64(interval), burst: burst, tolerance: tolerance}, nil
}

// Interval returns the time in which one unit comes back.
func (l Limit) Interval() time.Duration { return time.Duration(l.interval) }

// Burst returns how many units may be taken at once.
func (l Limit) Burst() int64 { return l.burst }

// Tolerance returns the time in which all units come back.
func (l Limit) Tolerance() time.Duration { return time.Duration(l.tolerance) }

// Increment returns the time by which quantity units move the TAT. It is
// negative for a negative quantity. The error is ErrOverflow.
func (l Limit) Increment(quantity int64) (time.Duration, error) {
	increment, ok := multiply(l.interval, quantity)
	if !ok {
		return 0, ErrOverflow
	}
	return time.Duration(increment), nil
}

// Units returns how many whole units come back in a time, between none and
// Burst.
func (l Limit) Units(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return min(int64(d)/l.interval, l.burst)
}

// Result is the answer to one request.
type Result struct {
	// Limited says that the request was refused, and changed nothing.
	Limited bool
	// Room is what is left of the tolerance. Units of it are the units that may
	// be taken now. It is negative if an earlier, more generous limit let the
	// TAT get ahead of this one's tolerance.
	Room time.Duration
	// RetryAfter is the time until the refused quantity would be admitted if
	// nothing else were taken. It is -1 if the request was admitted, or asked
	// for more than Burst, which is never admitted.
	RetryAfter time.Duration
	// ResetAfter is the time until all units are back.
	ResetAfter time.Duration
}

// Next answers a request for quantity units at a moment, given the TAT that the
// key has (0 for none), and returns the TAT that it then has. Both moments are
// nanoseconds since the epoch and not negative. Quantity 0 asks without
// taking. A negative quantity gives units back, but to no more than full: the
// TAT returned is never before the present, unless it is returned unchanged
// with a refusal. The error is ErrOverflow; then nothing changes.
func (l Limit) Next(tatNanos, nowNanos, quantity int64) (int64, Result, error) {
	increment, ok := multiply(l.interval, quantity)
	if !ok {
		return tatNanos, Result{}, ErrOverflow
	}
	ttl := max(tatNanos-nowNanos, 0)
	slack := subtractSaturated(l.tolerance, increment)
	if ttl > slack {
		retryAfter := int64(-1)
		if increment <= l.tolerance {
			retryAfter = ttl - slack
		}
		return tatNanos, l.result(true, ttl, retryAfter), nil
	}
	ttl = max(ttl+increment, 0)
	if ttl > math.MaxInt64-nowNanos {
		return tatNanos, Result{}, ErrOverflow
	}
	return nowNanos + ttl, l.result(false, ttl, -1), nil
}

func (l Limit) result(limited bool, ttl, retryAfter int64) Result {
	return Result{
		Limited:    limited,
		Room:       time.Duration(l.tolerance - ttl),
		RetryAfter: time.Duration(retryAfter),
		ResetAfter: time.Duration(ttl),
	}
}

// multiply returns a*b for a not negative, and whether it fits.
func multiply(a, b int64) (int64, bool) {
	magnitude := uint64(b)
	if b < 0 {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(uint64(a), magnitude)
	if high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	if b < 0 {
		return -int64(low), true
	}
	return int64(low), true
}

// subtractSaturated returns a-b for a not negative, or the largest number if
// that does not fit.
func subtractSaturated(a, b int64) int64 {
	if b < 0 && a > math.MaxInt64+b {
		return math.MaxInt64
	}
	return a - b
}
