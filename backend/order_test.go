package backend

import (
	"net"
	"testing"
	"time"
)

// TestWriterWaitsForTheLoop: what a loop is writing must not be overtaken by
// what the link's own goroutine takes from the queue, however late that starts.
func TestWriterWaitsForTheLoop(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	l := &link{conn: client, counters: new(counters), gone: make(chan struct{}), writing: true}
	l.writable.L, l.room.L = &l.mu, &l.mu
	l.send.add([]byte("PING\r\n"))
	time.AfterFunc(20*time.Millisecond, func() { l.fail(errClosed) })
	if small, _, ok := l.takeQueued(false); ok {
		t.Errorf("took %q meanwhile", small)
	}
}

// slowSink takes its reply late.
type slowSink struct {
	*recorder
	other chan bool // the other sink has been answered
	late  chan bool
}

func (s *slowSink) Reply([]byte, bool) bool {
	select {
	case <-s.other:
		s.late <- true
	case <-time.After(50 * time.Millisecond):
		s.late <- false
	}
	return false
}

// promptSink tells that it has been answered.
type promptSink struct {
	*recorder
	answered chan bool
}

func (s promptSink) Reply(part []byte, last bool) bool {
	s.answered <- true
	return s.recorder.Reply(part, last)
}

// TestNextConnectionAnswersLater: a session that has replies coming from a lost
// connection must not be given those of the next one first.
func TestNextConnectionAnswersLater(t *testing.T) {
	upstream := newFakeUpstream(t, func(args []string) string {
		if args[0] == "DIE" {
			return ""
		}
		return "+OK\r\n"
	})
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 0)
	stream := b.Acquire(b.Default())
	slow := &slowSink{recorder: newRecorder(), other: make(chan bool, 1), late: make(chan bool, 1)}
	if err := stream.Submit(slow, []Request{request("DIE")}, nil, new(Place)); err != nil {
		t.Fatal(err)
	}
	<-stream.link.Load().gone
	if err := stream.Submit(promptSink{newRecorder(), slow.other}, []Request{request("PING")}, nil, new(Place)); err != nil {
		t.Fatal(err)
	}
	if <-slow.late {
		t.Error("the next connection answered first")
	}
}
