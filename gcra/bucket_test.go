package gcra

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

const someMicros = int64(1_800_000_000_000_000)

func newBucket(t testing.TB, capacity, refill, periodMicros int64) Bucket {
	t.Helper()
	b, err := NewBucket(capacity, refill, periodMicros)
	if err != nil {
		t.Fatalf("NewBucket(%d, %d, %d): %v", capacity, refill, periodMicros, err)
	}
	return b
}

func TestNewBucket(t *testing.T) {
	const tenYears = 315_360_000_000_000
	for _, test := range []struct {
		capacity, refill, periodMicros int64
		interval, perMicro             int64
		want                           error
	}{
		{1, 1, 1, 1, 1, nil},
		{3, 3, 1e6, 1e6, 3, nil},
		{10, 6, 9, 3, 2, nil},
		{1e9, 1e9, 1e3, 1, 1e6, nil},
		{1e9, 1e9, tenYears, 315360, 1, nil},
		{14, 1, tenYears, tenYears, 1, nil},
		{1 << 52, 1, 1, 1, 1, nil},
		{1, 1, 1 << 52, 1 << 52, 1, nil},
		{1 << 20, 7, 1 << 34, 0, 0, nil}, // rounded
		{0, 1, 1, 0, 0, ErrBurst},
		{-1, 1, 1, 0, 0, ErrBurst},
		{1, 0, 1, 0, 0, ErrInterval},
		{1, 1, 0, 0, 0, ErrInterval},
		{1, -1, 1, 0, 0, ErrInterval},
		{15, 1, tenYears, 0, 0, ErrOverflow},
		{1<<52 + 1, 1, 1, 0, 0, ErrOverflow},
		{1, math.MaxInt64, 1, 0, 0, ErrOverflow},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, 0, 0, ErrOverflow},
		{math.MaxInt64, math.MaxInt64, 1, 0, 0, ErrOverflow},
	} {
		b, err := NewBucket(test.capacity, test.refill, test.periodMicros)
		if !errors.Is(err, test.want) {
			t.Errorf("%+v: error %v", test, err)
		}
		if err == nil && test.perMicro > 0 && (b.Interval() != test.interval || b.PerMicro() != test.perMicro) {
			t.Errorf("%+v: got %d ticks, %d per microsecond", test, b.Interval(), b.PerMicro())
		}
	}
}

// TestBucketRate sees that the rate is what was asked for, or less by no more
// than was promised.
func TestBucketRate(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	exact, rounded := 0, 0
	for range 100_000 {
		upTo := func(bits int) int64 { return 1 + r.Int64N(1<<r.IntN(bits)) }
		capacity, refill, micros := upTo(40), upTo(40), upTo(50)
		b, err := NewBucket(capacity, refill, micros)
		if err != nil {
			continue
		}
		want := big.NewRat(micros, refill)
		got := big.NewRat(b.Interval(), b.PerMicro())
		if new(big.Int).Mul(big.NewInt(capacity), want.Num()).Cmp(big.NewInt(maxTicks)) <= 0 {
			exact++
			if got.Cmp(want) != 0 {
				t.Errorf("%d, %d per %d: interval %v, want %v", capacity, refill, micros, got, want)
			}
			continue
		}
		rounded++
		slower := new(big.Rat).Sub(new(big.Rat).Quo(got, want), big.NewRat(1, 1))
		if slower.Sign() < 0 || slower.Cmp(big.NewRat(2*capacity, maxTicks)) > 0 {
			t.Errorf("%d, %d per %d: interval %v, want %v", capacity, refill, micros, got, want)
		}
		if capacity*b.Interval() > maxTicks+capacity {
			t.Errorf("%d, %d per %d: %d ticks", capacity, refill, micros, capacity*b.Interval())
		}
	}
	if exact < 1000 || rounded < 1000 {
		t.Errorf("%d exact, %d rounded", exact, rounded)
	}
}

// TestBucketSteps takes from a bucket of 3 that come back within a second: an
// interval of no whole number of anything.
func TestBucketSteps(t *testing.T) {
	b := newBucket(t, 3, 3, 1e6)
	const us = time.Microsecond
	var tat TAT
	for i, step := range []struct {
		at, quantity int64
		want         BucketResult
		micros, tick int64 // of the TAT, after start
	}{
		{0, 3, BucketResult{false, 0, -1, 1e6 * us}, 1e6, 0},
		{0, 1, BucketResult{true, 0, 333334 * us, 1e6 * us}, 1e6, 0},
		{333333, 1, BucketResult{true, 0, 1 * us, 666667 * us}, 1e6, 0},
		{333334, 1, BucketResult{false, 0, -1, 1e6 * us}, 1333333, 1},
		{666667, 1, BucketResult{false, 0, -1, 1e6 * us}, 1666666, 2},
		{1e6, 1, BucketResult{false, 0, -1, 1e6 * us}, 2e6, 0},
		{1e6, 4, BucketResult{true, 0, -1, 1e6 * us}, 2e6, 0},
		{2e6, 3, BucketResult{false, 0, -1, 1e6 * us}, 3e6, 0},
		{2e6, -1, BucketResult{false, 1, -1, 666667 * us}, 2666666, 2},
		{2e6, -3, BucketResult{false, 3, -1, 0}, 2e6, 0},
		{2e6, math.MinInt64, BucketResult{false, 3, -1, 0}, 2e6, 0},
		{2e6, math.MaxInt64, BucketResult{true, 3, -1, 0}, 2e6, 0},
		{2e6, 2, BucketResult{false, 1, -1, 666667 * us}, 2666666, 2},
		{1e6, 1, BucketResult{true, 0, 1e6 * us, 1666667 * us}, 2666666, 2}, // the clock stepped back
		{2666666, 0, BucketResult{false, 2, -1, 1 * us}, 2666666, 2},
		{2666667, 0, BucketResult{false, 3, -1, 0}, 2666667, 0},
	} {
		next, got := b.Next(tat, someMicros+step.at, step.quantity)
		if got != step.want || next.Micros-someMicros != step.micros || next.Ticks != step.tick {
			t.Errorf("step %d: got %+v, TAT %d and %d/%d", i, got, next.Micros-someMicros, next.Ticks, next.PerMicro)
		}
		tat = next
	}
}

// TestBucketAgainstFractions takes at random, of buckets of all sizes that share
// a TAT, and compares with arithmetic without bounds.
func TestBucketAgainstFractions(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		var tat TAT
		now := someMicros
		for range 1 + r.IntN(5) {
			upTo := func(most int64) int64 { return 1 + r.Int64N(1+r.Int64N(most)) }
			b, err := NewBucket(upTo(1e6), upTo(1e6), upTo(1e9))
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				now += r.Int64N(1+b.capacity*b.interval/b.perMicro) - r.Int64N(2)
				quantity := r.Int64N(b.capacity+2) - r.Int64N(b.capacity/4+1)
				next, got := b.Next(tat, now, quantity)
				wantNext, want := fractionalNext(b, tat, now, quantity)
				if got != want || value(next).Cmp(wantNext) != 0 || next.Ticks < 0 || next.PerMicro > 0 && next.Ticks >= next.PerMicro {
					t.Fatalf("%+v: %d at %d, TAT %+v: got %+v, %+v, want %v, %+v", b, quantity, now, tat, next, got, wantNext, want)
				}
				tat = next
			}
		}
	}
}

// value is a TAT in microseconds since the epoch.
func value(t TAT) *big.Rat {
	v := new(big.Rat).SetInt64(t.Micros)
	if t.PerMicro > 0 {
		v.Add(v, big.NewRat(t.Ticks, t.PerMicro))
	}
	return v
}

// fractionalNext is the textbook's step in fractions.
func fractionalNext(b Bucket, tat TAT, nowMicros, quantity int64) (*big.Rat, BucketResult) {
	minus := func(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
	integer := func(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }
	interval := big.NewRat(b.interval, b.perMicro)
	times := func(n int64) *big.Rat { return new(big.Rat).Mul(interval, integer(n)) }
	now, arrival := integer(nowMicros), value(tat)
	if tat.PerMicro != b.perMicro && !arrival.IsInt() {
		arrival.SetInt64(tat.Micros + 1)
	}
	if arrival.Cmp(now) < 0 {
		arrival = now
	}
	next := new(big.Rat).Add(arrival, times(quantity))
	result := func(limited bool, tat *big.Rat, retry int64) BucketResult {
		remaining := new(big.Rat).Quo(minus(times(b.capacity), minus(tat, now)), interval)
		whole := new(big.Int).Quo(remaining.Num(), remaining.Denom()).Int64()
		return BucketResult{limited, max(whole, 0), time.Duration(retry), time.Duration(ceiling(minus(tat, now)) * 1000)}
	}
	if wait := minus(minus(next, now), times(b.capacity)); wait.Sign() > 0 && quantity >= 0 {
		retry := int64(-1)
		if quantity <= b.capacity {
			retry = ceiling(wait) * 1000
		}
		return value(tat), result(true, arrival, retry)
	}
	if next.Cmp(now) < 0 {
		next = now
	}
	return next, result(false, next, -1)
}

// ceiling rounds a positive number up.
func ceiling(x *big.Rat) int64 {
	whole, rest := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return whole.Int64() + 1
	}
	return whole.Int64()
}
