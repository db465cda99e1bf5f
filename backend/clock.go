package backend

import "time"

const (
	// driftShare bounds how much faster or slower the upstream's clock may run
	// than the proxy's own: by one part in so many.
	driftShare = 256
	// provingTime and provingSamples are how long, and in how many samples, the
	// upstream's clock must have run as it should before it is relied on.
	provingTime    = int64(100 * time.Millisecond)
	provingSamples = 4
)

// upstreamClock tells the time at the upstream from the proxy's own clock, with
// an interval that it is sure to be in. Each TIME that the upstream has answered
// is a sample: it was read between sending and receiving. An interval that fits
// all samples is kept, and widened by what the two clocks may have drifted.
//
// A sample that fits no such interval says that one of the clocks was set, or
// does not run. Then the clock is not relied on until it has proved itself
// again. The zero upstreamClock has no samples.
type upstreamClock struct {
	low, high int64 // nanoseconds by which the upstream is ahead, when last sampled
	at        int64 // own time at which the last sample was sent
	since     int64 // own time from which all samples fit
	samples   int   // that fit
	proven    bool  // enough of them do
}

// sample notes that the upstream said that it is so many microseconds since the
// epoch. Sent and received are the own time, in nanoseconds, before asking and
// after the answer.
func (c *upstreamClock) sample(micros, sent, received int64) {
	low, high := micros*1000-received, micros*1000+999-sent
	if c.samples > 0 {
		drift := c.drift(received)
		low, high = max(low, c.low-drift), min(high, c.high+drift)
	}
	if low > high {
		*c = upstreamClock{}
		c.sample(micros, sent, received)
		return
	}
	if c.samples == 0 {
		c.since = received
	}
	c.low, c.high, c.at = low, high, sent
	c.samples++
	c.proven = c.proven || c.samples >= provingSamples && sent-c.since >= provingTime
}

// between returns what TIME would answer at a moment of the own clock: at least
// and at most, in microseconds since the epoch. It reports false if that can't
// be relied on.
func (c *upstreamClock) between(now int64) (from, to int64, ok bool) {
	if !c.proven {
		return 0, 0, false
	}
	drift := c.drift(now)
	return (now + c.low - drift) / 1000, (now + c.high + drift) / 1000, true
}

// drift is by how much the clocks may have moved apart since the last sample.
func (c *upstreamClock) drift(now int64) int64 {
	return max(now-c.at, 0) / driftShare
}
