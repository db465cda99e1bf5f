package gcra

import (
	"math"
	"math/bits"
	"time"
)

// MaxRefill is the longest time in which a Bucket may come back as a whole: 2^52
// microseconds, 142 years.
const MaxRefill = time.Duration(1<<52) * time.Microsecond

// Bucket is a limit whose units come back at the ratio of any two whole numbers,
// without rounding: three per second are three after a second, to the
// microsecond. It counts time in ticks, so many of which make a microsecond
// that every unit takes a whole number of them. Make it with NewBucket; the
// zero Bucket has nothing to take.
type Bucket struct {
	capacity int64
	interval int64 // ticks in which one unit comes back
	perMicro int64 // ticks in a microsecond
}

// TAT is the theoretical arrival time of a Bucket: a moment in microseconds
// since the epoch, and Ticks/PerMicro of a microsecond more. The zero TAT is
// long ago.
type TAT struct {
	Micros   int64
	Ticks    int64 // 0 to PerMicro - 1
	PerMicro int64 // of the Bucket that made it
}

// BucketResult is the answer to one request. Its fields mean what those of
// Result do.
type BucketResult struct {
	Limited bool
	// Remaining is how many units may be taken now.
	Remaining  int64
	RetryAfter time.Duration // in whole microseconds, rounded up; or -1
	ResetAfter time.Duration // in whole microseconds, rounded up
}

// maxTicks bounds the ticks in which all units come back, so that everything
// computed from them is exact in floating point too, which is all that scripts
// in Redis have.
const maxTicks = 1 << 52

// NewBucket returns the limit of at most capacity units at once, refill of which
// come back every period, in microseconds. All three must be positive, and
// everything must come back within MaxRefill. The rate is exact if
// capacity * period / gcd(refill, period) is at most 2^52. Beyond, it is rounded
// down, by less than capacity / 2^51 of itself.
func NewBucket(capacity, refill, periodMicros int64) (Bucket, error) {
	switch {
	case periodMicros <= 0 || refill <= 0:
		return Bucket{}, ErrInterval
	case capacity <= 0:
		return Bucket{}, ErrBurst
	case capacity > maxTicks || refill > maxTicks || exceeds(capacity, periodMicros, MaxRefill.Microseconds(), refill):
		return Bucket{}, ErrOverflow
	}
	common := gcd(periodMicros, refill)
	b := Bucket{capacity: capacity, interval: periodMicros / common, perMicro: refill / common}
	if most := maxTicks / capacity; b.interval > most {
		b.perMicro = max(1, mulDiv(most, refill, periodMicros))
		b.interval = mulDivUp(b.perMicro, periodMicros, refill)
	}
	return b, nil
}

// Capacity returns how many units may be taken at once.
func (b Bucket) Capacity() int64 { return b.capacity }

// Interval returns the ticks in which one unit comes back.
func (b Bucket) Interval() int64 { return b.interval }

// PerMicro returns the ticks in a microsecond.
func (b Bucket) PerMicro() int64 { return b.perMicro }

// Increment returns the ticks by which quantity units move the TAT. What is more
// than any TAT can be away is cut off.
func (b Bucket) Increment(quantity int64) int64 {
	if quantity > b.capacity {
		return (b.capacity + 1) * b.interval
	}
	return max(quantity, -(maxTicks/b.interval)) * b.interval
}

// Next answers a request for quantity units at a moment in microseconds since
// the epoch, and returns the TAT that the key then has. It is Limit.Next in
// ticks, but that units are taken back even if the TAT is too far ahead.
func (b Bucket) Next(tat TAT, nowMicros, quantity int64) (TAT, BucketResult) {
	wait, ticks := b.until(tat, nowMicros)
	increment := b.Increment(quantity)
	slack := b.capacity*b.interval - increment
	if multiplySaturated(wait, b.perMicro, ticks) > slack && increment >= 0 {
		retryAfter := int64(-1)
		if slack >= 0 {
			retryAfter = micros(wait + ceilDiv(ticks-slack, b.perMicro))
		}
		return tat, b.result(true, wait, ticks, retryAfter)
	}
	if increment != 0 {
		ticks += increment
		whole := floorDiv(ticks, b.perMicro)
		wait, ticks = wait+whole, ticks-whole*b.perMicro
		if wait < 0 {
			wait, ticks = 0, 0
		}
	}
	return TAT{nowMicros + wait, ticks, b.perMicro}, b.result(false, wait, ticks, -1)
}

// until returns the time until a TAT, in microseconds and ticks more. Ticks of
// another Bucket are rounded up to a microsecond.
func (b Bucket) until(tat TAT, nowMicros int64) (wait, ticks int64) {
	wait = tat.Micros - nowMicros
	switch {
	case wait < 0:
		return 0, 0
	case tat.Ticks > 0 && tat.PerMicro != b.perMicro:
		return wait + 1, 0
	}
	return wait, tat.Ticks
}

func (b Bucket) result(limited bool, wait, ticks, retryAfter int64) BucketResult {
	room := b.capacity*b.interval - multiplySaturated(wait, b.perMicro, ticks)
	return BucketResult{
		Limited:    limited,
		Remaining:  max(room, 0) / b.interval,
		RetryAfter: time.Duration(retryAfter),
		ResetAfter: time.Duration(micros(wait + min(ticks, 1))),
	}
}

// micros returns a number of microseconds in nanoseconds.
func micros(n int64) int64 { return n * int64(time.Microsecond) }

// multiplySaturated returns a*b + c, all not negative, or the largest number if
// that does not fit.
func multiplySaturated(a, b, c int64) int64 {
	product, ok := multiply(a, b)
	if !ok || product > math.MaxInt64-c {
		return math.MaxInt64
	}
	return product + c
}

// exceeds reports whether a*b > c*d, all not negative.
func exceeds(a, b, c, d int64) bool {
	high1, low1 := bits.Mul64(uint64(a), uint64(b))
	high2, low2 := bits.Mul64(uint64(c), uint64(d))
	return high1 > high2 || high1 == high2 && low1 > low2
}

// mulDiv returns a*b/c, rounded down, all positive. It must fit.
func mulDiv(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, _ := bits.Div64(high, low, uint64(c))
	return int64(quotient)
}

// mulDivUp returns a*b/c, rounded up, all positive. It must fit.
func mulDivUp(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, rest := bits.Div64(high, low, uint64(c))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// floorDiv returns a/b, rounded down, for b positive.
func floorDiv(a, b int64) int64 {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}

// ceilDiv returns a/b, rounded up, for b positive.
func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
