package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
	"cellproxy/backend/poll"
	"cellproxy/commands"
)

// Requests are sent upstream when so many have gathered.
const (
	batchCommands = 128
	batchBytes    = 64 << 10
)

// finishTime is how long a session that ends waits for its last replies to be
// read.
const finishTime = 5 * time.Second

// session is one client. It starts shared: its commands go down the stream of
// its identity among everybody's. What needs a connection of its own borrows
// a private one. All methods are called by the goroutine that reads from the
// client; replies come in through out.
type session struct {
	server   *Server
	conn     *clientConn
	out      output
	id       int64
	began    time.Time
	shown    atomic.Pointer[shown]
	name     []byte // CLIENT SETNAME
	identity backend.Identity
	stream   backend.Lane
	place    backend.Place // on stream
	multi    bool          // in MULTI
	watching bool          // after WATCH
	keep     bool          // the private connection is needed for what comes next
	blocking bool          // the private connection, if any, waits for something
	sticky   bool          // the private connection passes everything through: a wire
	lasting  bool          // a wire until RESET
	leaving  bool          // a wire may not be needed any more
	sharded  bool          // a wire on which SSUBSCRIBE was sent
	loggedIn bool          // or nobody asks
	quit     bool
	muted    bool       // CLIENT REPLY OFF
	skip     bool       // CLIENT REPLY SKIP: the next command is muted
	skipping bool       // the command at hand is muted
	loop     *poll.Loop // that serves the client, or nil
	requests []backend.Request
	scratch  []byte // encoded limiter commands of requests
	call     commands.Call
	sent     *sent // nil: no refusals are kept
	counting counting
}

func newSession(server *Server, conn *clientConn) *session {
	s := &session{
		server: server, conn: conn,
		identity: server.config.Backend.Default(), began: time.Now(),
	}
	s.shown.Store(&server.newcomer)
	s.id = server.clients.add(s)
	settings := server.settings.Load()
	s.out.init(conn.Conn, settings.OutputLimit, settings.WriteTimeout)
	s.out.subscriber.OutputLimits = &settings.SubscriberLimits
	s.loggedIn = !server.asksForPassword()
	if server.config.Backend.KeepsDenials() {
		s.sent = new(sent)
	}
	s.useStream(server.config.Backend.Lane(s.identity))
	return s
}

// serve runs a batch of commands. It reports false when the session is over.
func (s *session) serve(first redcon.Command, rest []redcon.Command) bool {
	s.run(first)
	for i := range rest {
		s.run(rest[i])
	}
	err := s.submit()
	s.out.Flush()
	if err == nil && s.leaving {
		err = s.leaveWire()
	}
	return err == nil
}

// serveReady runs n commands that the guard has, and never waits if they are
// immediate.
func (s *session) serveReady(n int) {
	for range n {
		s.run(redcon.Command{})
	}
	s.submit()
	s.out.Flush()
}

// immediate reports whether commands can be run without waiting for anything.
// The session is plain.
func (s *session) immediate(ready []redcon.Command) bool {
	routes := s.server.settings.Load().routes
	for i := range ready {
		if routes.find(ready[i].Args[0]).run != nil {
			return false
		}
	}
	if s.server.config.Backend.Paused() {
		return false
	}
	room, owed := s.out.hasRoom(len(ready))
	if !owed {
		s.place = backend.Place{}
	}
	return room && s.stream.Ready(s.place)
}

// plain reports whether the session is on the shared stream and nothing out of
// the ordinary is asked of it.
func (s *session) plain() bool {
	return s.loggedIn && !s.multi && !s.watching && !s.sticky && !s.muted && !s.skip && !s.quit && !s.isPrivate()
}

// run dispatches one command.
func (s *session) run(cmd redcon.Command) {
	cmd = s.conn.guard.resolve(cmd)
	if s.quit {
		return
	}
	s.skipping, s.skip = s.skip, false
	if !s.admitted(cmd.Args[0]) {
		s.count(otherKind)
		s.reply([]byte(textNoAuth))
		return
	}
	r := s.server.settings.Load().routes.find(cmd.Args[0])
	s.count(r.kind)
	switch {
	case s.isStuck(cmd.Args[0]):
		s.notOnWire(cmd)
		s.server.counters.tallies[r.kind].Failed.Add(1)
	case r.run != nil:
		r.run(s, cmd)
	case !s.stepAside():
		s.server.counters.tallies[r.kind].Failed.Add(1)
	case r.limiter != nil:
		s.limit(r, cmd)
	case r.script:
		s.forwardScript(cmd)
	default:
		s.forward(cmd)
	}
	if len(s.requests) >= batchCommands || len(s.scratch) >= batchBytes {
		s.submit()
	}
}

// forward sends a command on as it is.
func (s *session) forward(cmd redcon.Command) {
	if s.sent != nil {
		s.forwardWithEffect(cmd)
		return
	}
	s.add(backend.Request{Bytes: cmd.Raw})
}

// forwardScript sends on a command that runs a script of the client's.
func (s *session) forwardScript(cmd redcon.Command) {
	if s.sent != nil {
		s.sent.noteWrite()
	}
	s.add(backend.Request{Bytes: cmd.Raw, Script: true})
}

// add queues a request for submit.
func (s *session) add(r backend.Request) {
	r.Discard = r.Discard || s.muted || s.skipping
	s.requests = append(s.requests, r)
}

// reply answers the command at hand without the upstream.
func (s *session) reply(reply []byte) {
	s.submit()
	if !s.muted && !s.skipping {
		s.out.local(reply)
	}
}

// limit rewrites a limiter command to a run of its script. On a private
// connection that is EVAL: within a transaction there is no second try.
func (s *session) limit(r route, cmd redcon.Command) {
	tally := &s.server.counters.tallies[r.kind]
	if err := r.limiter.Parse(cmd.Args, &s.call); err != nil {
		s.refuse(cmd, err)
		tally.Failed.Add(1)
		return
	}
	start := len(s.scratch)
	if s.isPrivate() || s.multi {
		s.flushCount()
		s.server.counters.unseen[r.kind].Add(1)
		s.scratch = s.call.AppendEval(s.scratch)
		s.add(backend.Request{Bytes: s.scratch[start:]})
		return
	}
	if s.sent != nil && s.deny(&s.call) {
		tally.Count(cmd.Raw, replyLimited)
		return
	}
	var run commands.Run
	s.scratch, run = s.call.AppendRun(s.scratch)
	s.add(backend.Request{Bytes: s.scratch[start:], Run: run, Limiter: cmd.Raw, Tally: tally})
}

// submit sends the queued requests upstream. An error says that the client is
// gone; trouble with the upstream becomes the client's replies.
func (s *session) submit() error {
	s.flushCount()
	requests := s.requests
	if len(requests) == 0 {
		return nil
	}
	defer s.reuse()
	if s.sticky {
		return s.submitSticky(requests)
	}
	s.out.Flush()
	private, owed, err := s.out.expect(len(requests), !s.multi && !s.watching && !s.keep, s.loop == nil)
	if err != nil {
		countLost(requests)
		return err
	}
	if !owed {
		s.place = backend.Place{}
	}
	if private != nil {
		err = private.Submit(requests)
	} else {
		err = s.stream.Submit(&s.out, requests, s.loop, &s.place)
	}
	if err != nil {
		s.refuseAll(requests, refusal(err))
	}
	return nil
}

// refuseAll answers requests that could not be sent.
func (s *session) refuseAll(requests []backend.Request, refusal []byte) {
	s.out.unexpect(len(requests), func(i int) []byte {
		r := &requests[i]
		reply := refusal
		if len(r.Limiter) > 0 && !r.Discard {
			if instead := s.stream.Instead(r.Limiter); instead != nil {
				reply = instead
			}
		}
		if r.Tally != nil {
			r.Tally.Count(r.Limiter, reply)
		}
		if r.Discard {
			return nil
		}
		return reply
	})
}

// countLost counts the limiter commands that nobody is left to be answered of.
func countLost(requests []backend.Request) {
	for i := range requests {
		if tally := requests[i].Tally; tally != nil {
			tally.Failed.Add(1)
		}
	}
}

// reuse empties the queue, keeping its memory when that is small.
func (s *session) reuse() {
	clear(s.requests)
	s.requests = s.requests[:0]
	if len(s.scratch) >= batchBytes || cap(s.scratch) > 2*batchBytes {
		s.scratch = nil // a large request in it may be on its way
	}
	s.scratch = s.scratch[:0]
}

// refusal is the reply to a command that could not be sent.
func refusal(err error) []byte {
	var refused *backend.ReplyError
	if errors.As(err, &refused) {
		return refused.Line
	}
	return backend.UnavailableReply(err)
}

// ask sends one encoded command to a stream, after all that went before it has
// been answered, and returns the reply.
func (s *session) ask(stream backend.Lane, command []byte) ([]byte, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	return s.askBy(func(requests []backend.Request) error {
		return stream.Submit(&s.out, requests, nil, &backend.Place{})
	}, command)
}

// askBy is ask for what submits requests. Nothing is owed.
func (s *session) askBy(submit func([]backend.Request) error, command []byte) ([]byte, error) {
	o := &s.out
	o.mu.Lock()
	o.capture, o.captured = true, nil
	o.owed++
	o.mu.Unlock()
	err := submit([]backend.Request{{Bytes: command, Effect: backend.Reads}})
	if err == nil {
		err = o.settle()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	reply := o.captured
	o.capture, o.captured = false, nil
	if err != nil && o.err == nil {
		o.owed--
		return refusal(err), nil
	}
	return reply, err
}

// settle waits until everything sent has been answered.
func (s *session) settle() error {
	s.submit()
	s.out.Flush()
	return s.out.settle()
}

// useStream makes the session's commands go to another stream from now on.
func (s *session) useStream(stream backend.Lane) {
	if s.stream != nil {
		s.stream.Release()
	}
	s.stream, s.place = stream, backend.Place{}
	s.tellGuard()
}

// finish lets the client have the replies to what it has sent. Somebody who
// waits for a blocking command or for messages has no reply due.
func (s *session) finish() {
	waits := s.sticky || s.blocking && (s.isPrivate() || s.stream.Blocked())
	s.out.finish(finishTime, !waits)
}

// close ends the session and gives back what it used.
func (s *session) close() {
	s.server.clients.remove(s)
	if s.out.overflowed() {
		s.server.counters.unread.Add(1)
	}
	s.out.close()
	s.stream.Release()
}
