package gcra

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

const second = int64(time.Second)

func newLimit(t testing.TB, interval time.Duration, burst int64) Limit {
	t.Helper()
	l, err := New(interval, burst)
	if err != nil {
		t.Fatalf("New(%v, %d): %v", interval, burst, err)
	}
	return l
}

func TestNew(t *testing.T) {
	for _, test := range []struct {
		interval time.Duration
		burst    int64
		want     error
	}{
		{1, 1, nil},
		{math.MaxInt64, 1, nil},
		{1, math.MaxInt64, nil},
		{3037000499, 3037000499, nil},
		{0, 1, ErrInterval},
		{-1, 1, ErrInterval},
		{1, 0, ErrBurst},
		{1, -1, ErrBurst},
		{2, math.MaxInt64, ErrOverflow},
		{math.MaxInt64, 2, ErrOverflow},
		{3037000500, 3037000500, ErrOverflow},
		{1 << 32, 1 << 31, ErrOverflow},
	} {
		l, err := New(test.interval, test.burst)
		if !errors.Is(err, test.want) {
			t.Errorf("New(%d, %d): error %v, want %v", test.interval, test.burst, err, test.want)
		}
		if err == nil && int64(l.Tolerance()) != int64(test.interval)*test.burst {
			t.Errorf("New(%d, %d): tolerance %d", test.interval, test.burst, l.Tolerance())
		}
	}
}

// TestSteps takes from a burst of 3 that comes back one per second.
func TestSteps(t *testing.T) {
	l := newLimit(t, time.Second, 3)
	const start = 1_800_000_000 * int64(time.Second)
	tat := int64(0)
	for i, step := range []struct {
		at, quantity int64 // at: nanoseconds after start
		want         Result
		wantTTL      int64
	}{
		{0, 0, Result{false, 3e9, -1, 0}, 0},
		{0, 1, Result{false, 2e9, -1, 1e9}, 1e9},
		{0, 2, Result{false, 0, -1, 3e9}, 3e9},
		{0, 1, Result{true, 0, 1e9, 3e9}, 3e9},
		{0, 0, Result{false, 0, -1, 3e9}, 3e9},
		{0, 4, Result{true, 0, -1, 3e9}, 3e9},
		{second - 1, 1, Result{true, 1e9 - 1, 1, 2e9 + 1}, 2e9 + 1},
		{second, 1, Result{false, 0, -1, 3e9}, 3e9},
		{0, 1, Result{true, -1e9, 2e9, 4e9}, 4e9}, // the clock stepped back
		{second, -1, Result{false, 1e9, -1, 2e9}, 2e9},
		{second, -5, Result{false, 3e9, -1, 0}, 0},
		{second, 3, Result{false, 0, -1, 3e9}, 3e9},
		{4*second - 1, 3, Result{true, 3e9 - 1, 1, 1}, 1},
		{4 * second, 3, Result{false, 0, -1, 3e9}, 3e9},
		{9 * second, 4, Result{true, 3e9, -1, 0}, 0},
		{9 * second, math.MinInt64 / second, Result{false, 3e9, -1, 0}, 0},
	} {
		next, got, err := l.Next(tat, start+step.at, step.quantity)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got != step.want {
			t.Errorf("step %d: got %+v, want %+v", i, got, step.want)
		}
		if ttl := max(next-start-step.at, 0); ttl != step.wantTTL {
			t.Errorf("step %d: TAT %d ns ahead, want %d", i, ttl, step.wantTTL)
		}
		tat = next
	}
}

func TestOverflow(t *testing.T) {
	for _, test := range []struct {
		interval             time.Duration
		burst                int64
		tat, now, quantity   int64
		wantErr              error
		wantTAT, wantLimited int64
	}{
		{2, 1, 0, 0, math.MaxInt64/2 + 1, ErrOverflow, 0, 0},
		{2, 1, 0, 0, math.MaxInt64 / 2, nil, 0, 1},
		{2, 1, 7, 0, math.MinInt64/2 - 1, ErrOverflow, 7, 0},
		{1, math.MaxInt64, 0, 1, math.MaxInt64, ErrOverflow, 0, 0},
		{1, math.MaxInt64, 0, 0, math.MaxInt64, nil, math.MaxInt64, 0},
		{1, math.MaxInt64, math.MaxInt64, 0, 0, nil, math.MaxInt64, 0},
		{1, math.MaxInt64, math.MaxInt64, 0, 1, nil, math.MaxInt64, 1},
		{1, math.MaxInt64, math.MaxInt64, 0, -math.MaxInt64, nil, 0, 0},
		{math.MaxInt64, 1, math.MaxInt64, math.MaxInt64, 1, ErrOverflow, math.MaxInt64, 0},
		{1, 1, math.MaxInt64, 0, 1, nil, math.MaxInt64, 1},
	} {
		l := newLimit(t, test.interval, test.burst)
		tat, got, err := l.Next(test.tat, test.now, test.quantity)
		if !errors.Is(err, test.wantErr) || tat != test.wantTAT || got.Limited != (test.wantLimited == 1) {
			t.Errorf("%+v: got TAT %d, %+v, error %v", test, tat, got, err)
		}
	}
}

func TestIncrement(t *testing.T) {
	l := newLimit(t, 7, 1)
	for _, test := range []struct {
		quantity int64
		want     time.Duration
		wantErr  error
	}{
		{0, 0, nil}, {3, 21, nil}, {-3, -21, nil},
		{math.MaxInt64/7 + 1, 0, ErrOverflow},
		{math.MinInt64, 0, ErrOverflow},
	} {
		got, err := l.Increment(test.quantity)
		if got != test.want || !errors.Is(err, test.wantErr) {
			t.Errorf("Increment(%d) = %d, %v, want %d, %v", test.quantity, got, err, test.want, test.wantErr)
		}
	}
}

func TestUnits(t *testing.T) {
	l := newLimit(t, 7, 3)
	for room, want := range map[time.Duration]int64{
		math.MinInt64: 0, -1: 0, 0: 0, 6: 0, 7: 1, 13: 1, 14: 2, 21: 3, 22: 3, 700: 3,
	} {
		if got := l.Units(room); got != want {
			t.Errorf("Units(%d) = %d, want %d", room, got, want)
		}
	}
}

// TestNeverMoreThanTheRate takes at random and sees that no more is admitted
// than the burst and what came back since.
func TestNeverMoreThanTheRate(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		l := newLimit(t, time.Duration(1+random.Int64N(1+random.Int64N(1e9))), 1+random.Int64N(1+random.Int64N(1000)))
		const start = 1_800_000_000_000_000_000
		var tat, admitted int64
		now := int64(start)
		for range 500 {
			now += random.Int64N(2 * int64(l.Interval()))
			quantity := random.Int64N(1 + random.Int64N(l.Burst()+1))
			next, result, err := l.Next(tat, now, quantity)
			if err != nil {
				t.Fatal(err)
			}
			if !result.Limited {
				admitted += quantity
			}
			if elapsed := now - start; admitted > l.Burst()+elapsed/int64(l.Interval()) {
				t.Fatalf("%v for %d: %d admitted in %d ns", l.Interval(), l.Burst(), admitted, elapsed)
			}
			if result.Room > l.Tolerance() || next > now && time.Duration(next-now) > l.Tolerance() {
				t.Fatalf("%v for %d: TAT %d, now %d, %+v", l.Interval(), l.Burst(), next, now, result)
			}
			tat = next
		}
		if admitted == 0 {
			t.Fatal("nothing was admitted")
		}
	}
}

// FuzzNext checks one step of any size against arithmetic without bounds.
func FuzzNext(f *testing.F) {
	const now = 1_800_000_000_000_000_000
	f.Add(int64(2e9), int64(16), int64(now+5e9), int64(now), int64(1))
	f.Add(int64(2e9), int64(16), int64(0), int64(now), int64(0))
	f.Add(int64(2e9), int64(16), int64(now+5e9), int64(now), int64(-3))
	f.Add(int64(200), int64(10), int64(now-5), int64(now), int64(11))
	f.Add(int64(1), int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(math.MinInt64))
	f.Add(int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(math.MaxInt64), int64(1))
	f.Fuzz(func(t *testing.T, interval, burst, tat, now, quantity int64) {
		l, err := New(time.Duration(interval), burst)
		if err != nil || tat < 0 || now < 0 {
			return
		}
		next, got, err := l.Next(tat, now, quantity)
		wantNext, want, wantErr := unboundedNext(interval, burst, tat, now, quantity)
		if next != wantNext || got != want || !errors.Is(err, wantErr) {
			t.Errorf("Next = %d, %+v, %v, want %d, %+v, %v", next, got, err, wantNext, want, wantErr)
		}
	})
}

// unboundedNext is the textbook's step in unbounded integers.
func unboundedNext(interval, burst, tat, now, quantity int64) (int64, Result, error) {
	integer := big.NewInt
	minus := func(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }
	plus := func(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
	tolerance := new(big.Int).Mul(integer(interval), integer(burst))
	increment := new(big.Int).Mul(integer(interval), integer(quantity))
	if !increment.IsInt64() || increment.Int64() == math.MinInt64 {
		return tat, Result{}, ErrOverflow
	}
	arrival := integer(max(tat, now))
	next := plus(arrival, increment)
	wait := minus(minus(next, tolerance), integer(now))
	if wait.Sign() > 0 {
		retry := integer(-1)
		if increment.Cmp(tolerance) <= 0 {
			retry = wait
		}
		ttl := minus(arrival, integer(now))
		return tat, Result{
			Limited: true, Room: time.Duration(minus(tolerance, ttl).Int64()),
			RetryAfter: time.Duration(retry.Int64()), ResetAfter: time.Duration(ttl.Int64()),
		}, nil
	}
	if next.Cmp(integer(now)) < 0 {
		next = integer(now)
	}
	if !next.IsInt64() {
		return tat, Result{}, ErrOverflow
	}
	ttl := minus(next, integer(now))
	return next.Int64(), Result{
		Room: time.Duration(minus(tolerance, ttl).Int64()), RetryAfter: -1, ResetAfter: time.Duration(ttl.Int64()),
	}, nil
}
