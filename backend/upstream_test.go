package backend

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cellproxy/backend/cluster"
)

// fakeUpstream is a server whose replies the test decides.
type fakeUpstream struct {
	net.Listener
	handle func(args []string) string // "" closes, "wait" never answers

	mu    sync.Mutex
	conns []net.Conn
	seen  []string
	tasks sync.WaitGroup
}

func newFakeUpstream(t *testing.T, handle func(args []string) string) *fakeUpstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeUpstream{Listener: ln, handle: handle}
	f.tasks.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			f.tasks.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		f.cut()
		f.tasks.Wait()
	})
	return f
}

// cut closes every connection.
func (f *fakeUpstream) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
}

// count returns how often a command with this name came in.
func (f *fakeUpstream) count(name string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if s == name {
			n++
		}
	}
	return n
}

func (f *fakeUpstream) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.seen = append(f.seen, strings.ToUpper(args[0]))
		f.mu.Unlock()
		reply := "+OK\r\n"
		if args[0] != "SCRIPT" && args[0] != "CLIENT" {
			reply = f.handle(args)
		}
		switch reply {
		case "":
			return
		case "wait":
			continue
		}
		io.WriteString(conn, reply)
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r)
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r)
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// recorder is a sink that keeps what it is given.
type recorder struct {
	mu      sync.Mutex
	changed sync.Cond
	partial []byte
	replies []string
	raw     []byte
	lost    error
	broken  int
}

func newRecorder() *recorder {
	r := &recorder{}
	r.changed.L = &r.mu
	return r
}

func (r *recorder) Reply(part []byte, last bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = append(r.partial, part...)
	if last {
		r.replies = append(r.replies, string(r.partial))
		r.partial = nil
		r.changed.Broadcast()
	}
	return true
}

func (r *recorder) Flush() {}

func (r *recorder) Broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken++
	r.changed.Broadcast()
	return false
}

func (r *recorder) Raw(b []byte, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, b...)
	r.changed.Broadcast()
}

func (r *recorder) Lost(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = err
	r.changed.Broadcast()
}

// wait waits until done holds, for at most 10 s.
func (r *recorder) wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	expired := false
	timer := time.AfterFunc(10*time.Second, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		expired = true
		r.changed.Broadcast()
	})
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !done() {
		if expired {
			t.Fatalf("waited in vain for %s; replies so far: %q", what, r.replies)
		}
		r.changed.Wait()
	}
}

func (r *recorder) waitReplies(t *testing.T, n int) []string {
	t.Helper()
	r.wait(t, strconv.Itoa(n)+" replies", func() bool { return len(r.replies) >= n })
	return r.replies
}

func newTestBackend(t *testing.T, url string, timeout time.Duration) *Backend {
	t.Helper()
	b, err := New(Config{URL: url, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func request(args ...string) Request {
	return Request{Bytes: cluster.AppendCommand(nil, args...)}
}

func TestStreamKeepsOrderAcrossSessions(t *testing.T) {
	upstream := newFakeUpstream(t, func(args []string) string { return "+" + args[1] + "\r\n" })
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 0)
	const sessions, each = 20, 500
	var wg sync.WaitGroup
	for session := range sessions {
		wg.Go(func() {
			stream := b.Acquire(b.Default())
			defer b.Release(stream)
			sink := newRecorder()
			for i := 0; i < each; i += 10 {
				var requests []Request
				for j := range 10 {
					requests = append(requests, request("ECHO", strconv.Itoa(session)+"-"+strconv.Itoa(i+j)))
				}
				if err := stream.Submit(sink, requests, nil, new(Place)); err != nil {
					t.Error(err)
				}
			}
			for i, reply := range sink.waitReplies(t, each) {
				if want := "+" + strconv.Itoa(session) + "-" + strconv.Itoa(i) + "\r\n"; reply != want {
					t.Errorf("session %d: reply %d is %q, want %q", session, i, reply, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestDiscardAndInstead(t *testing.T) {
	upstream := newFakeUpstream(t, func(args []string) string { return "$" + strconv.Itoa(len(args[1])) + "\r\n" + args[1] + "\r\n" })
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 0)
	stream := b.Acquire(b.Default())
	sink := newRecorder()
	large := strings.Repeat("x", 3*readBuffer)
	quiet, instead := request("ECHO", large), request("ECHO", "c")
	quiet.Discard = true
	instead.Instead = []byte("-ERR mine\r\n")
	if err := stream.Submit(sink, []Request{request("ECHO", "a"), quiet, instead, request("ECHO", large)}, nil, new(Place)); err != nil {
		t.Fatal(err)
	}
	got := sink.waitReplies(t, 4)
	want := []string{"$1\r\na\r\n", "", "-ERR mine\r\n", "$" + strconv.Itoa(len(large)) + "\r\n" + large + "\r\n"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("reply %d: got %.40q, want %.40q", i, got[i], want[i])
		}
	}
}

func TestLostConnectionAnswersEverythingOnce(t *testing.T) {
	upstream := newFakeUpstream(t, func(args []string) string {
		if args[1] == "7" {
			return ""
		}
		return ":1\r\n"
	})
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 0)
	stream := b.Acquire(b.Default())
	sink := newRecorder()
	var requests []Request
	for i := range 20 {
		requests = append(requests, request("INCRBY", strconv.Itoa(i)))
	}
	if err := stream.Submit(sink, requests, nil, new(Place)); err != nil {
		t.Fatal(err)
	}
	for i, reply := range sink.waitReplies(t, 20) {
		if lost := strings.HasPrefix(reply, "-ERR upstream connection lost"); lost != (i >= 7) {
			t.Errorf("reply %d is %q", i, reply)
		}
	}
	if n := upstream.count("INCRBY"); n > 20 {
		t.Errorf("upstream saw %d commands, want at most the 20 that were sent", n)
	}
	if err := stream.Submit(sink, []Request{request("INCRBY", "1")}, nil, new(Place)); err != nil {
		t.Fatalf("the stream did not come back: %v", err)
	}
	if got := sink.waitReplies(t, 21)[20]; got != ":1\r\n" {
		t.Errorf("after reconnecting: got %q", got)
	}
}

func TestUnavailableUpstreamIsRefusedAtOnce(t *testing.T) {
	upstream := newFakeUpstream(t, nil)
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 0)
	upstream.Close()
	stream := b.Acquire(b.Default())
	for range 3 {
		if err := stream.Submit(newRecorder(), []Request{request("PING")}, nil, new(Place)); err == nil {
			t.Fatal("submitting to a dead upstream succeeded")
		}
	}
}

func TestSilentUpstreamIsGivenUp(t *testing.T) {
	upstream := newFakeUpstream(t, func([]string) string { return "wait" })
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 200*time.Millisecond)
	stream := b.Acquire(b.Default())
	sink := newRecorder()
	if err := stream.Submit(sink, []Request{request("GET", "k")}, nil, new(Place)); err != nil {
		t.Fatal(err)
	}
	if got := sink.waitReplies(t, 1)[0]; !strings.Contains(got, errTimeout.Error()) {
		t.Errorf("got %q, want an error that says %q", got, errTimeout)
	}
}

func TestPrivateConnectionIsReusedOnlyWhenReleased(t *testing.T) {
	upstream := newFakeUpstream(t, func([]string) string { return "+OK\r\n" })
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 0)
	sink := newRecorder()
	first, err := b.Private(context.Background(), b.Default(), sink)
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	second, err := b.Private(context.Background(), b.Default(), sink)
	if err != nil {
		t.Fatal(err)
	}
	if second != first {
		t.Error("a released connection was not reused")
	}
	second.Discard()
	third, err := b.Private(context.Background(), b.Default(), sink)
	if err != nil {
		t.Fatal(err)
	}
	if third == first {
		t.Error("a discarded connection was reused")
	}
	other := b.Default()
	other.DB = 3
	third.Release()
	if p, err := b.Private(context.Background(), other, sink); err != nil || p == third {
		t.Errorf("got connection %p, %v for another database, want a new one", p, err)
	}
}

func TestPrivateConnectionPassesThrough(t *testing.T) {
	upstream := newFakeUpstream(t, func([]string) string { return "+one\r\n+two\r\n" })
	b := newTestBackend(t, "redis://"+upstream.Addr().String(), 0)
	sink := newRecorder()
	p, err := b.Private(context.Background(), b.Default(), sink)
	if err != nil {
		t.Fatal(err)
	}
	p.PassThrough()
	if err := p.Submit([]Request{request("MONITOR")}); err != nil {
		t.Fatal(err)
	}
	sink.wait(t, "raw bytes", func() bool { return bytes.Equal(sink.raw, []byte("+one\r\n+two\r\n")) })
	upstream.cut()
	sink.wait(t, "the loss", func() bool { return sink.lost != nil })
}

func TestRefusalIsTheUpstreamsOwnReply(t *testing.T) {
	const refusal = "-WRONGPASS invalid username-password pair\r\n"
	upstream := newFakeUpstream(t, func([]string) string { return refusal })
	b := newTestBackend(t, "redis://user:wrong@"+upstream.Addr().String(), 0)
	err := b.Check()
	if !isReplyError(err) || "-"+err.Error()+"\r\n" != refusal {
		t.Errorf("got %v, want the reply %q", err, refusal)
	}
}

func TestEmbeddedStoreExpiresKeys(t *testing.T) {
	b := newTestBackend(t, "", 0)
	stream := b.Acquire(b.Default())
	sink := newRecorder()
	if err := stream.Submit(sink, []Request{request("SET", "k", "v", "PX", "30"), request("GET", "k")}, nil, new(Place)); err != nil {
		t.Fatal(err)
	}
	if got := sink.waitReplies(t, 2)[1]; got != "$1\r\nv\r\n" {
		t.Fatalf("got %q", got)
	}
	deadline := time.Now().Add(10 * time.Second)
	for n := 3; time.Now().Before(deadline); n++ {
		stream.Submit(sink, []Request{request("EXISTS", "k")}, nil, new(Place))
		if sink.waitReplies(t, n)[n-1] == ":0\r\n" {
			return
		}
	}
	t.Error("the key did not expire")
}
