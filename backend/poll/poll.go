// Package poll reads from many connections in a few goroutines, where the
// system has epoll. That takes half the system calls, and none of the waking,
// that a goroutine for each connection takes. It is for what never has to wait:
// who must wait takes its connection out of the loop first.
package poll

import (
	"runtime"
	"sync/atomic"
)

// Handler is told of a connection by a Loop. Its methods are called by the
// loop's goroutine, and everybody else in the loop waits for them.
type Handler interface {
	// Ready says that there is something to read. It will not say so again
	// before more has come, so all must be read: until a read returns less than
	// it has room for or, after a hangup, fails.
	Ready(hangup bool)
	// Released says that the loop has been closed.
	Released()
}

// Loops are loops that share the connections. A nil *Loops has none.
type Loops struct {
	all  []*Loop
	next atomic.Uint32
}

// Start starts a loop for every two processors that Go may use: the system
// needs as much time to carry the bytes as the loops to look at them. It
// returns nil and the reason where there can't be any.
func Start() (*Loops, error) {
	ls := new(Loops)
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		l, err := New()
		if err != nil {
			ls.Close()
			return nil, err
		}
		ls.all = append(ls.all, l)
	}
	return ls, nil
}

// Next returns the loop whose turn it is to take a connection, or nil.
func (ls *Loops) Next() *Loop {
	if ls == nil {
		return nil
	}
	return ls.all[ls.next.Add(1)%uint32(len(ls.all))]
}

// Close closes the loops.
func (ls *Loops) Close() {
	if ls == nil {
		return
	}
	for _, l := range ls.all {
		l.Close()
	}
}
