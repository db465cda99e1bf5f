package proxy

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// writeAttempt is a write to a socket that does not wait. It is kept with the
// output so that it costs no allocation.
type writeAttempt struct {
	b   []byte
	n   int
	err error
	do  func(fd uintptr) bool
}

func (w *writeAttempt) init() {
	w.do = func(fd uintptr) bool {
		for {
			w.n, w.err = syscall.Write(int(fd), w.b)
			if w.err != syscall.EINTR {
				return true
			}
		}
	}
}

// Flush writes what is there for the client, as far as the socket takes it at
// once; a goroutine sees to the rest. It implements backend.Sink.
func (o *output) Flush() {
	o.mu.Lock()
	o.marked = false
	for !o.writing && o.err == nil && len(o.buf) > 0 {
		b := o.take()
		if o.socket == nil {
			o.writers.Add(1)
			o.unwritten = len(b)
			go o.writeOn(b, b)
			break
		}
		o.mu.Unlock()
		rest, err := o.writeNow(b)
		o.mu.Lock()
		if err != nil {
			o.writing = false
			o.fail(err)
		} else if len(rest) > 0 {
			o.writers.Add(1)
			o.unwritten = len(rest)
			go o.writeOn(rest, b)
			break
		}
		o.written(b)
	}
	o.endIfDone()
	o.mu.Unlock()
}

// endIfDone closes a session that is to end and has nothing left to say; o.mu
// is held.
func (o *output) endIfDone() {
	if o.ending && o.owed == 0 && len(o.buf) == 0 && !o.writing {
		o.fail(errEnded)
	}
}

// take claims the buffer for writing; o.mu is held.
func (o *output) take() []byte {
	b := o.buf
	o.buf, o.spare = o.spare, nil
	o.writing = true
	return b
}

// written says that b may be used again; o.mu is held.
func (o *output) written(b []byte) {
	o.writing = false
	o.writes++
	if cap(b) <= keptOutput {
		o.spare = b[:0]
	}
	o.wake()
}

// writeNow writes without waiting and returns what did not fit.
func (o *output) writeNow(b []byte) (rest []byte, err error) {
	w := &o.attempt
	w.b = b
	err = o.socket.Write(w.do)
	w.b = nil
	if err != nil {
		return nil, err
	}
	if w.err == syscall.EAGAIN {
		return b, nil
	}
	return b[max(w.n, 0):], w.err
}

// patientPiece is how much is written at a time. Of each the client has to take
// some in time.
const patientPiece = 256 << 10

// writeOn writes rest, the end of buffer b, and all that comes meanwhile.
func (o *output) writeOn(rest, b []byte) {
	defer o.writers.Done()
	for {
		o.conn.SetWriteDeadline(time.Now().Add(o.patient))
		n, err := o.conn.Write(rest[:min(len(rest), patientPiece)])
		rest = rest[n:]
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil // it takes some
		}
		o.mu.Lock()
		o.unwritten = len(rest)
		if err == nil && len(rest) > 0 && o.err == nil {
			o.mu.Unlock()
			continue
		}
		if err != nil {
			o.writing = false
			o.fail(err)
		} else {
			o.written(b)
		}
		if o.err != nil || len(o.buf) == 0 {
			// Flush writes without a deadline: it never waits.
			o.conn.SetWriteDeadline(time.Time{})
			o.endIfDone()
			o.mu.Unlock()
			return
		}
		b = o.take()
		rest = b
		o.unwritten = len(rest)
		o.mu.Unlock()
	}
}
