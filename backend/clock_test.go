package backend

import (
	"math/rand/v2"
	"testing"
	"time"
)

// sampled is an upstreamClock beside the clock that it is to tell.
type sampled struct {
	upstreamClock
	own   int64                 // own time
	ahead func(own int64) int64 // nanoseconds by which the upstream is
}

// ask takes a sample, after a pause, that takes some time to send and as long to
// receive.
func (s *sampled) ask(pause, under time.Duration) {
	s.own += int64(pause)
	sent := s.own
	s.own += int64(under)
	micros := s.micros()
	s.own += int64(under)
	s.sample(micros, sent, s.own)
}

// micros is what the upstream says now.
func (s *sampled) micros() int64 {
	return (s.own + s.ahead(s.own)) / 1000
}

func constant(nanos int64) func(int64) int64 {
	return func(int64) int64 { return nanos }
}

func TestUpstreamClockIsRightWithinItsInterval(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for name, ahead := range map[string]func(int64) int64{
		"same":   constant(0),
		"ahead":  constant(1_700_000_000_123_456_789),
		"faster": func(own int64) int64 { return 1e18 + own/300 },
		"slower": func(own int64) int64 { return 1e18 - own/300 },
	} {
		s := &sampled{own: 5e9, ahead: ahead}
		for i := range 2000 {
			s.ask(time.Duration(random.IntN(3e7)), time.Duration(random.IntN(2e6)))
			s.own += int64(random.IntN(2e7))
			from, to, ok := s.between(s.own)
			if got := s.micros(); ok && (got < from || got > to) {
				t.Fatalf("%s, seed %d, sample %d: it is %d, not between %d and %d", name, seed, i, got, from, to)
			}
			if i > 100 && !ok {
				t.Fatalf("%s, seed %d: not relied on after sample %d", name, seed, i)
			}
			if ok && to-from > 4000+200 {
				t.Fatalf("%s, seed %d, sample %d: %d µs wide", name, seed, i, to-from)
			}
		}
	}
}

func TestUpstreamClockMustProveItself(t *testing.T) {
	s := &sampled{ahead: constant(1e18)}
	if _, _, ok := s.between(0); ok {
		t.Error("relied on without a sample")
	}
	prove := func() (samples int) {
		for samples = 1; samples < 100; samples++ {
			s.ask(10*time.Millisecond, time.Millisecond)
			if _, _, ok := s.between(s.own); ok {
				break
			}
		}
		return samples
	}
	if got := prove(); got < 8 || got > 12 {
		t.Errorf("relied on after %d samples in 12 ms each, want some 10", got)
	}
	for name, ahead := range map[string]int64{"set forward": 1e18 + 5e6, "set back": 1e18 - 5e6} {
		s.ahead = constant(ahead)
		s.ask(10*time.Millisecond, time.Millisecond)
		if _, _, ok := s.between(s.own); ok {
			t.Errorf("relied on after it was %s", name)
		}
		if got := prove(); got < 7 || got > 12 {
			t.Errorf("%s: relied on again after %d samples, want some 10", name, got)
		}
	}
}

func TestUpstreamClockThatStandsIsNotReliedOn(t *testing.T) {
	s := &sampled{ahead: func(own int64) int64 { return 1e18 - own }}
	for i := range 1000 {
		s.ask(time.Millisecond, 30*time.Millisecond)
		if _, _, ok := s.between(s.own); ok {
			t.Fatalf("relied on after %d samples", i+1)
		}
	}
}
