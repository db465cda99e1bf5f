package backend

import (
	"sync/atomic"
	"time"
)

// counters are what a Backend counts.
type counters struct {
	latency     Histogram     // microseconds
	batches     Histogram     // commands written at once
	lost        atomic.Uint64 // connections
	unreachable atomic.Uint64 // connections that could not be made
	refused     atomic.Uint64 // connections that the upstream refused
	silent      atomic.Uint64 // connections given up by the watchdog
	repairs     atomic.Uint64 // limiter commands run again as EVAL
}

// Stats are what a Backend has done up to a moment, and how it is then.
type Stats struct {
	// Up says that the upstream, or the cluster as a whole, is not held to be dead.
	Up bool
	// Policy is how limiter commands are answered while it is.
	Policy Policy
	// Deaths is how many times it, or a node of the cluster, has been found dead.
	Deaths uint64
	// Lost is how many connections ended though nobody closed them, Silent how
	// many of these were given up because they left commands unanswered.
	Lost, Silent uint64
	// Unreachable is how many connections could not be made, Refused how many
	// the upstream did not want.
	Unreachable, Refused uint64
	// Repairs is how many limiter commands had to bring their script again.
	Repairs uint64
	// Fallbacks is how many limiter commands were answered by the policy.
	Fallbacks uint64
	// Denials is how many limiter commands were refused without asking the
	// upstream.
	Denials uint64
	// Streams is how many shared connections there are, and InFlight how many
	// replies they and the private ones owe.
	Streams, InFlight int
	// PrivateIdle and PrivateInUse are how many private connections there are.
	PrivateIdle, PrivateInUse int
	// Latency is how long the upstream takes to answer, in microseconds from
	// submitting a command: a sample of at most one command under way on each
	// connection. Blocking commands are left out.
	Latency Counts
	// Batches is how many commands left in one write.
	Batches Counts
}

// Stats returns them.
func (b *Backend) Stats() Stats {
	s := Stats{
		Up: b.Down() == nil, Policy: b.Policy(), Deaths: uint64(b.Failures()),
		Lost: b.counters.lost.Load(), Silent: b.counters.silent.Load(),
		Unreachable: b.counters.unreachable.Load(), Refused: b.counters.refused.Load(),
		Repairs: b.counters.repairs.Load(), Fallbacks: uint64(b.fallback.answered.Load()), Denials: uint64(b.Denials()),
		Latency: b.counters.latency.Counts(), Batches: b.counters.batches.Counts(),
	}
	b.addConnections(&s)
	if b.cluster != nil {
		b.cluster.eachNode(func(node *Backend) {
			s.Deaths += uint64(node.Failures())
			node.addConnections(&s)
		})
	}
	return s
}

// addConnections adds those there are at the moment.
func (b *Backend) addConnections(s *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stream := range b.streams {
		if stream.link.Load() != nil {
			s.Streams++
		}
	}
	for l := range b.watched {
		s.InFlight += int(l.inFlight.Load())
	}
	idle := 0
	for _, connections := range b.idle {
		idle += len(connections)
	}
	s.PrivateIdle += idle
	s.PrivateInUse += len(b.private) - idle
}

// countFailedDial counts a connection that could not be made.
func (c *counters) countFailedDial(err error) {
	if isReplyError(err) {
		c.refused.Add(1)
	} else {
		c.unreachable.Add(1)
	}
}

// clockStart is when the clock of samples begins.
var clockStart = time.Now()

// sample has the latest request timed, unless one is being timed already: that
// is often enough, and looking at the clock costs. l.mu is held.
func (l *link) sample() {
	o := &l.arriving[len(l.arriving)-1]
	if !o.blocks && !l.sampling.Load() {
		l.sampling.Store(true)
		o.since = time.Since(clockStart)
	}
}

// sampled ends the timing of a request.
func (l *link) sampled(o *owed) {
	l.counters.latency.Observe(uint64((time.Since(clockStart) - o.since).Microseconds()))
	o.since = 0
	l.sampling.Store(false)
}
