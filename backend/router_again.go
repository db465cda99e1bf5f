package backend

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"cellproxy/backend/cluster"
)

// The pause before what a node could not run is sent again doubles from the
// first to the second of these.
const (
	minAgainPause = 5 * time.Millisecond
	maxAgainPause = 100 * time.Millisecond
)

// manyRedirects is after how many of them a command pauses: the nodes do not
// agree yet.
const manyRedirects = 3

// The errors of commands that were not run and can't be sent again. TRYAGAIN is
// what clients of a cluster take for a reason to do that themselves.
var (
	overtaken = []byte("-TRYAGAIN the command was not run: its slot was moving, and what was sent after it has been run\r\n")
	unsettled = []byte("-TRYAGAIN the command was not run: the cluster is being divided anew\r\n")
	notServed = []byte("-CLUSTERDOWN Hash slot not served\r\n")
)

// refused handles an error reply. It reports false if that is the command's
// own.
func (r *router) refused(p *part, line []byte) bool {
	refusal, redirect := cluster.ParseError(line, p.node.addr)
	switch refusal {
	case cluster.NotRefused:
		return false
	case cluster.NotNow:
		r.putOff(p, line)
		return true
	}
	to, err := r.cluster.node(redirect.Addr)
	if err != nil {
		return false
	}
	if p.slot == noSlot {
		p.slot = redirect.Slot
	}
	if refusal == cluster.Moved {
		r.cluster.lookSoon()
	}
	if p.tries >= manyRedirects {
		r.putOff(p, unsettled)
		return true
	}
	r.sendAgain(p, unsettled)
	p.to, p.asking = to, refusal == cluster.Ask
	return true
}

// unsent handles a part that could not be sent.
func (r *router) unsent(p *part, err error) {
	if limiter := p.op.request.Limiter; len(limiter) > 0 {
		if instead := r.Instead(limiter); instead != nil {
			r.giveUp(p, instead)
			return
		}
	}
	if refused := new(ReplyError); errors.As(err, &refused) {
		r.giveUp(p, refused.Line)
		return
	}
	if p.pinned && !p.opening {
		r.giveUp(p, UnavailableReply(err))
		return
	}
	r.putOff(p, UnavailableReply(err))
}

// putOff has a part sent again after a pause, to where it belongs by then.
func (r *router) putOff(p *part, line []byte) {
	r.cluster.lookSoon()
	if now := time.Now(); !r.resume.After(now) {
		r.pause = min(max(2*r.pause, minAgainPause), maxAgainPause)
		r.resume = now.Add(r.pause)
	}
	p.to, p.asking = nil, false
	r.sendAgain(p, line)
}

// sendAgain has a part sent again, or gives it its error when its time is over
// or no node can be reached.
func (r *router) sendAgain(p *part, line []byte) {
	now := time.Now()
	if p.tries == 0 {
		p.since = now
	}
	p.tries++
	if now.Sub(p.since) >= r.cluster.backend.config.ClusterWait || r.cluster.backend.Down() != nil {
		r.giveUp(p, bytes.Clone(line))
		return
	}
	r.again = append(r.again, p)
}

// giveUp answers a part that was not run with an error.
func (r *router) giveUp(p *part, line []byte) {
	if p.opening {
		r.failOpening()
	}
	r.answer(p, line)
}

// inOrder takes what is to be sent again, in the order in which it was sent
// first.
func (r *router) inOrder() []*part {
	again := r.again
	r.again = nil
	slices.SortFunc(again, func(a, b *part) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	return again
}

// overtaken reports whether a later command of the same slot as a part's has
// been run.
func (r *router) overtaken(p *part) bool {
	for _, m := range r.ran {
		same := m.slot == p.slot && p.slot != noSlot
		if m.seq > p.seq && (same || m.slot == allSlots || p.slot == allSlots) {
			return true
		}
	}
	return false
}

// hasRun notes that a part was run, or may have been.
func (r *router) hasRun(p *part) {
	if p.tries > 0 {
		r.pause = 0
	}
	if len(r.again) > 0 {
		r.ran = append(r.ran, mark{p.seq, p.slot})
	}
}
