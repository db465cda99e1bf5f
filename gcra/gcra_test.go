package gcra

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

func TestNew(t *testing.T) {
	for _, tt := range []struct {
		burst, count int64
		period       time.Duration
		err          error
	}{
		{15, 30, time.Minute, nil},
		{0, 1, 1, nil},
		{0, 0, time.Second, ErrZeroRate},
		{0, 1, 0, ErrZeroRate},
		{-1, 1, time.Second, ErrNegative},
		{0, -1, time.Second, ErrNegative},
		{0, 1, -time.Second, ErrNegative},
		{0, int64(time.Second) + 1, time.Second, ErrOverflow},
		{math.MaxInt64, 1, 1, ErrOverflow},
		{math.MaxInt64 - 1, 1, 1, nil},
		{1, 1, math.MaxInt64, ErrOverflow},
		{0, 1, math.MaxInt64, nil},
	} {
		if _, err := New(tt.burst, tt.count, tt.period); !errors.Is(err, tt.err) {
			t.Errorf("New(%d, %d, %d): got error %v, want %v", tt.burst, tt.count, tt.period, err, tt.err)
		}
	}
}

func TestNext(t *testing.T) {
	limit, err := New(4, 1, time.Second) // 5 at once, then one a second
	if err != nil {
		t.Fatal(err)
	}
	const s = int64(time.Second)
	now := 1_800_000_000 * s
	tat := int64(0)
	for i, step := range []struct {
		after, quantity int64
		want            Result
	}{
		{0, 0, Result{false, 5, -1, 0}},
		{0, 1, Result{false, 4, -1, time.Second}},
		{0, 6, Result{true, 4, -1, time.Second}},
		{0, 4, Result{false, 0, -1, 5 * time.Second}},
		{0, 1, Result{true, 0, time.Second, 5 * time.Second}},
		{s - 1, 1, Result{true, 0, 1, 4*time.Second + 1}},
		{1, 1, Result{false, 0, -1, 5 * time.Second}},
		{0, -2, Result{false, 2, -1, 3 * time.Second}},
		{0, -9, Result{false, 5, -1, 0}},
		{0, 5, Result{false, 0, -1, 5 * time.Second}},
		{-s, 1, Result{true, 0, 2 * time.Second, 6 * time.Second}}, // the clock steps back
		{10 * s, 5, Result{false, 0, -1, 5 * time.Second}},
	} {
		now += step.after
		next, got, err := limit.Next(tat, now, step.quantity)
		if err != nil || got != step.want {
			t.Errorf("step %d: got %+v, %v, want %+v", i, got, err, step.want)
		}
		tat = next
	}
}

func TestNextOverflow(t *testing.T) {
	limit, err := New(8_000_000_000, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixNano()
	for _, quantity := range []int64{8_000_000_000, math.MaxInt64, math.MinInt64} {
		if _, _, err := limit.Next(0, now, quantity); !errors.Is(err, ErrOverflow) {
			t.Errorf("quantity %d: got error %v, want %v", quantity, err, ErrOverflow)
		}
	}
}

// checkNext compares Next with the definition, computed without bounds.
func checkNext(t *testing.T, burst, count, period, tat, now, quantity int64) {
	t.Helper()
	limit, err := New(burst, count, time.Duration(period))
	if err != nil || now < 0 || tat < 0 {
		return
	}
	got, r, err := limit.Next(tat, now, quantity)
	n := func(v int64) *big.Int { return big.NewInt(v) }
	interval := new(big.Int).Quo(n(period), n(count))
	tolerance := new(big.Int).Mul(interval, new(big.Int).Add(n(burst), n(1)))
	increment := new(big.Int).Mul(interval, n(quantity))
	base := n(max(tat, now))
	next := new(big.Int).Add(base, increment)
	if !next.IsInt64() && next.Sign() > 0 || !new(big.Int).Abs(increment).IsInt64() {
		if !errors.Is(err, ErrOverflow) {
			t.Fatalf("got error %v, want %v", err, ErrOverflow)
		}
		return
	}
	if next.Cmp(n(now)) < 0 {
		next = n(now)
	}
	limited := n(now).Cmp(new(big.Int).Sub(next, tolerance)) < 0
	if limited {
		next = base
	}
	if err != nil || r.Limited != limited || n(got).Cmp(next) != 0 {
		t.Fatalf("got TAT %d, %+v, %v, want TAT %v, limited %v", got, r, err, next, limited)
	}
	if r.Remaining < 0 || r.Remaining > limit.Capacity() || r.ResetAfter < 0 {
		t.Fatalf("got %+v, out of range", r)
	}
}

func FuzzNext(f *testing.F) {
	f.Add(int64(15), int64(30), int64(time.Minute), int64(0), int64(1_800_000_000_000_000_000), int64(1))
	f.Add(int64(0), int64(1), int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(-1))
	f.Add(int64(math.MaxInt64-1), int64(1), int64(1), int64(5), int64(9), int64(math.MaxInt64))
	f.Add(int64(9), int64(1000), int64(1001), int64(5), int64(9), int64(math.MinInt64))
	f.Fuzz(checkNext)
}

// TestAdmittedIsBounded sends random traffic and checks what GCRA promises: in
// any span of time no more than burst+1 and the rate's share is admitted.
func TestAdmittedIsBounded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		burst, count, period := r.Int64N(20), 1+r.Int64N(50), 1+r.Int64N(int64(time.Minute))
		limit, err := New(burst, count, time.Duration(period))
		if err != nil {
			continue
		}
		interval := int64(limit.Interval())
		type admission struct{ at, quantity int64 }
		var admitted []admission
		var tat int64
		now := int64(1_800_000_000_000_000_000)
		for range 200 {
			now += r.Int64N(2 * interval)
			quantity := r.Int64N(burst + 3)
			next, result, err := limit.Next(tat, now, quantity)
			if err != nil {
				t.Fatal(err)
			}
			if tat = next; !result.Limited {
				admitted = append(admitted, admission{now, quantity})
			}
		}
		for i := range admitted {
			var sum int64
			for _, a := range admitted[i:] {
				sum += a.quantity
				if most := burst + 1 + (a.at-admitted[i].at)/interval; sum > most {
					t.Fatalf("admitted %d within %d ns, at most %d may be", sum, a.at-admitted[i].at, most)
				}
			}
		}
	}
}
