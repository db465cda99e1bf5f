package backend

import (
	"bytes"
	"fmt"
)

// noPermission begins the reply to a command that the user may not run on a
// key: with many keys, that may be the fault of one.
var noPermission = []byte("-NOPERM")

// enterBatch sees to the beginning of a reply that may be that to a batch: it
// takes the head of an array of replies, each of which is then delivered by
// itself, or delivers an error to all that it is for. It returns how many bytes
// it is done with, 0 if the reply is an ordinary one.
func (l *link) enterBatch(b []byte) (n int, enough bool, err error) {
	if l.left > 0 {
		return 0, true, nil
	}
	if l.batch == 0 {
		o := l.oldest()
		if o == nil || !o.batched {
			return 0, true, nil
		}
		l.mu.Lock()
		next := l.send.nextBatch()
		l.mu.Unlock()
		l.batch, l.loading = next.runs, next.loads
	}
	if l.loading {
		n := ReplyLength(b)
		l.loading = n == 0
		return n, n > 0, nil
	}
	if l.batch == 1 {
		l.batch = 0
		l.left = 1
		return 0, true, nil
	}
	end := bytes.IndexByte(b, '\n') + 1
	switch {
	case end == 0:
		return 0, false, nil
	case b[0] == '-':
		if bytes.HasPrefix(b, noPermission) {
			l.stopBatches()
		}
		for l.left = l.batch; l.left > 0; l.left-- {
			if err := l.deliverPart(b[:end], true); err != nil {
				l.left = 0
				return 0, false, err
			}
		}
	default:
		if count, err := headerLength(b[:end]); b[0] != '*' || err != nil || count != l.batch {
			return 0, false, fmt.Errorf("%w: %d replies come as %q", errReply, l.batch, b[:end])
		}
		l.left = l.batch
	}
	l.batch = 0
	return end, true, nil
}

// stopBatches has every run go alone from now on: those of a batch that was
// refused for one key are made up for later than what was sent behind them.
func (l *link) stopBatches() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.welcome.batches = false
}
