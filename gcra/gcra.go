// Package gcra is the generic cell rate algorithm in exact integer arithmetic,
// in nanoseconds. It has no clock and does no input or output.
//
// A limiter's whole state is its theoretical arrival time (TAT): the moment at
// which all that was admitted so far will have drained. A request for a quantity
// moves the TAT by quantity emission intervals; it is limited when that would
// put the TAT more than the tolerance ahead of now.
package gcra

import (
	"errors"
	"math"
	"math/bits"
	"time"
)

// Errors of New and Next.
var (
	// ErrZeroRate is for a count or a period of 0.
	ErrZeroRate = errors.New("zero rates are not supported")
	// ErrNegative is for a negative burst, count or period.
	ErrNegative = errors.New("negative limits are not supported")
	// ErrOverflow is for limits and times that do not fit 64 bits of
	// nanoseconds, or an emission interval below one.
	ErrOverflow = errors.New("limit is out of range")
)

// Limit is a rate and a burst. Make it with New.
type Limit struct {
	capacity  int64 // quantity that fits an idle limiter: burst + 1
	interval  int64 // emission interval: nanoseconds of one unit
	tolerance int64 // nanoseconds the TAT may be ahead: interval * capacity
}

// New returns the limit that admits count units per period, and up to burst+1
// of them at once. Burst is 0 or more, count and period are 1 or more; the
// emission interval is period/count, truncated to nanoseconds.
func New(burst, count int64, period time.Duration) (Limit, error) {
	switch {
	case burst < 0 || count < 0 || period < 0:
		return Limit{}, ErrNegative
	case count == 0 || period == 0:
		return Limit{}, ErrZeroRate
	case burst == math.MaxInt64 || int64(period) < count:
		return Limit{}, ErrOverflow
	}
	l := Limit{capacity: burst + 1, interval: int64(period) / count}
	tolerance, ok := multiply(l.interval, l.capacity)
	if !ok {
		return Limit{}, ErrOverflow
	}
	l.tolerance = tolerance
	return l, nil
}

// Capacity is the quantity that an idle limiter admits at once.
func (l Limit) Capacity() int64 { return l.capacity }

// Interval is the emission interval.
func (l Limit) Interval() time.Duration { return time.Duration(l.interval) }

// Tolerance is how far the TAT may be ahead of now.
func (l Limit) Tolerance() time.Duration { return time.Duration(l.tolerance) }

// Increment is how far quantity moves the TAT; negative quantities move it back.
func (l Limit) Increment(quantity int64) (time.Duration, error) {
	increment, ok := multiply(l.interval, quantity)
	if !ok {
		return 0, ErrOverflow
	}
	return time.Duration(increment), nil
}

// Result is what became of a request.
type Result struct {
	Limited   bool
	Remaining int64 // units that would be admitted now, 0 to Capacity
	// RetryAfter is how long a limited request is to wait, or -1 when it was
	// admitted or asks for more than ever fits.
	RetryAfter time.Duration
	ResetAfter time.Duration // until the limiter is idle
}

// Next decides on a request for quantity units at nowNanos, in nanoseconds
// since the epoch, and returns the TAT that follows. tat is the TAT before; one
// that is not in the future is the same as none. A negative quantity gives
// units back, never beyond full; 0 only asks.
func (l Limit) Next(tat, nowNanos, quantity int64) (next int64, r Result, err error) {
	increment, err := l.Increment(quantity)
	if err != nil {
		return 0, Result{}, err
	}
	tat = max(tat, nowNanos)
	if increment > 0 && tat > math.MaxInt64-int64(increment) {
		return 0, Result{}, ErrOverflow
	}
	next = max(tat+int64(increment), nowNanos)
	r.RetryAfter = -1
	if wait := next - nowNanos - l.tolerance; wait > 0 {
		r.Limited = true
		next = tat
		if int64(increment) <= l.tolerance {
			r.RetryAfter = time.Duration(wait)
		}
	}
	r.ResetAfter = time.Duration(next - nowNanos)
	r.Remaining = l.remaining(int64(r.ResetAfter))
	return next, r, nil
}

// remaining is how many units fit when the TAT is ahead by ahead. redis-cell
// divides whole microseconds; where an interval has none, nanoseconds do.
func (l Limit) remaining(ahead int64) int64 {
	left, unit := l.tolerance-ahead, l.interval
	if left <= 0 {
		return 0
	}
	if micros := unit / 1000; micros > 0 {
		left, unit = left/1000, micros
	}
	return min(left/unit, l.capacity)
}

// multiply returns a*b, a positive.
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
