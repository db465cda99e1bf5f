package backend

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"cellproxy/commands"
)

// Tally counts what the limiter commands of a name were answered.
type Tally struct {
	Admitted, Limited, Failed atomic.Uint64
	// Keys, if set, is told of some of the keys.
	Keys *TopKeys
}

// outcome is what a limiter command was answered.
type outcome int

const (
	unknown outcome = iota
	admitted
	limited
	failed
)

// outcomeOf looks at the beginning of a reply to a limiter command. It is
// unknown when there is no more than the header.
func outcomeOf(part []byte) outcome {
	if len(part) == 0 {
		return unknown
	}
	if part[0] == '*' {
		part = part[bytes.IndexByte(part, '\n')+1:]
	}
	switch {
	case len(part) == 0:
		return unknown
	case part[0] != ':':
		return failed
	case part[1] == '0':
		return admitted
	}
	return limited
}

func (t *Tally) add(o outcome, n uint64) {
	switch o {
	case admitted:
		t.Admitted.Add(n)
	case limited:
		t.Limited.Add(n)
	case failed:
		t.Failed.Add(n)
	}
}

// Count counts a reply that was not one of many: that to a limiter command, as
// the client sent it.
func (t *Tally) Count(limiter, reply []byte) {
	o := outcomeOf(reply)
	t.add(o, 1)
	if t.Keys != nil && rand.IntN(keySample) == 0 {
		t.tellKeys(limiter, o)
	}
}

// tellKeys tells of a call that is one of keySample.
func (t *Tally) tellKeys(limiter []byte, o outcome) {
	if o != admitted && o != limited {
		return
	}
	if command, key := commands.RawName(limiter); command != nil {
		t.Keys.add(key, o == limited, time.Now())
	}
}

// tallying gathers what is alike for one addition to a Tally. It belongs to the
// reader of one link.
type tallying struct {
	tally   *Tally
	outcome outcome
	n       uint64
	keys    keySampling
}

// count counts the outcome of a limiter command as soon as it shows.
func (t *tallying) count(o *owed, part []byte) {
	if o.tally == nil {
		return
	}
	outcome := outcomeOf(part)
	if outcome == unknown {
		return
	}
	if t.tally != o.tally || t.outcome != outcome {
		t.flush()
		t.tally, t.outcome = o.tally, outcome
	}
	t.n++
	if o.tally.Keys != nil && t.keys.next() {
		o.tally.tellKeys(o.limiter, outcome)
	}
	o.tally = nil
}

func (t *tallying) flush() {
	if t.n > 0 {
		t.tally.add(t.outcome, t.n)
		t.n = 0
	}
}
