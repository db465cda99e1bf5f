package proxy

import (
	"bytes"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
)

// A wire is a session whose private connection passes everything through, as
// the upstream sends things there that nobody asked for, or keeps account of
// what the proxy does not. It ends with RESET, or when a look at the connection
// says that there is nothing left of that kind.

// probeTime bounds how long a wire waits for the replies to what the proxy itself
// asks.
const probeTime = 5 * time.Second

// stick handles what changes a connection in ways the proxy does not keep
// account of, or makes it send what nobody asked for: it makes the session a
// wire.
func (s *session) stick(cmd redcon.Command) {
	if !s.sticky {
		if !s.goPrivate() || s.settleOn() != nil {
			return
		}
		s.wire().PassThrough()
		s.sticky = true
		s.passReplyMode()
	}
	s.leaving = false // for now, as some last for one command
	s.forward(cmd)
}

// stickForGood handles what is over only with RESET, or nobody can tell when.
func (s *session) stickForGood(cmd redcon.Command) {
	s.stick(cmd)
	s.lasting = true
}

// loosen handles what may be the end of what a wire is needed for.
func (s *session) loosen(cmd redcon.Command) {
	s.stick(cmd)
	s.leaving = true
}

// subscribe handles what begins a subscription.
func (s *session) subscribe(cmd redcon.Command) {
	s.stick(cmd)
	s.out.listen(true)
}

// subscribeShard handles SSUBSCRIBE. Redis counts these apart.
func (s *session) subscribeShard(cmd redcon.Command) {
	s.subscribe(cmd)
	s.sharded = true
}

// monitor handles MONITOR.
func (s *session) monitor(cmd redcon.Command) {
	s.stickForGood(cmd)
	s.out.listen(false)
}

// noteClient takes note of what a CLIENT sent on a wire may have done there.
func (s *session) noteClient(cmd redcon.Command) {
	if len(cmd.Args) < 2 {
		return
	}
	switch sub := strings.ToUpper(string(cmd.Args[1])); {
	case sub == "REPLY" && len(cmd.Args) == 3:
		s.lasting = true // what is not answered tells nothing
		s.noteReplyMode(string(cmd.Args[2]))
	case sub == "PAUSE":
		s.lasting = true // who has paused others can end that, and stands behind none
	case sub == "UNPAUSE":
		s.server.config.Backend.Pause(0)
	case sub == "CACHING":
		s.leaving = false // lasts for one command
	case ownClient[sub]:
		s.leaving = len(cmd.Args) < 3 || !bytes.EqualFold(cmd.Args[2], []byte("ON"))
	}
}

// noteReplyMode takes note of what CLIENT REPLY may have set, for RESET.
func (s *session) noteReplyMode(mode string) {
	switch strings.ToUpper(mode) {
	case "ON":
		s.muted = false
	case "OFF":
		s.muted = true
	case "SKIP":
		s.skip = !s.muted
	}
}

// noteHello takes note of what a HELLO sent on a wire may have done there.
func (s *session) noteHello(cmd redcon.Command) {
	s.leaving = true
	for _, arg := range cmd.Args[1:] {
		if bytes.EqualFold(arg, []byte("AUTH")) {
			s.lasting = true // as somebody whom only the upstream knows
		}
	}
}

// passReplyMode tells the upstream what CLIENT REPLY has asked of the proxy so
// far.
func (s *session) passReplyMode() {
	mode := ""
	switch {
	case s.muted:
		mode = "OFF"
	case s.skipping:
		mode = "SKIP"
	default:
		return
	}
	s.lasting = true // what is not answered tells nothing
	s.add(backend.Request{Bytes: encodeWords("CLIENT", "REPLY", mode).Raw})
}

// submitSticky sends requests to a connection that passes everything through.
func (s *session) submitSticky(requests []backend.Request) error {
	s.out.mu.Lock()
	private, err := s.out.private, s.out.err
	s.out.mu.Unlock()
	if err != nil {
		return err
	}
	if private == nil {
		return errEnded
	}
	return private.Submit(requests)
}

// resetWire resets the private connection of a wire, and waits for what it brings
// until then. After CLIENT REPLY SKIP, which may have been refused or queued,
// another command goes before the RESET: if it is not answered, neither would
// the RESET have been.
func (s *session) resetWire() error {
	p := newResetProbe(s.id)
	s.out.setProbe(p)
	if s.skipping {
		s.forward(p.command())
	}
	s.forward(encodeWords("RESET"))
	if err := s.submit(); err != nil {
		return err
	}
	s.out.awaitProbe(probeTime)
	s.out.setProbe(nil)
	s.skipping = s.skipping && !p.marked
	return nil
}

// leaveWire makes the session shared again if its private connection is as a new
// one but for what the proxy keeps account of. The error says that the client is
// gone.
func (s *session) leaveWire() error {
	if !s.sticky || s.lasting || s.multi || s.watching || s.quit || s.out.isWanted() || s.server.config.Backend.Paused() {
		return nil
	}
	s.leaving = false
	unsubscribes := []string{"UNSUBSCRIBE"}
	if s.sharded {
		unsubscribes = append(unsubscribes, "SUNSUBSCRIBE")
	}
	for _, name := range unsubscribes {
		p := newCountProbe(name, s.id)
		if err := s.askWire(p, p.command()); err != nil || !p.counted || p.count > 0 {
			return err
		}
	}
	p := new(replyProbe)
	if err := s.askWire(p, encodeWords("CLIENT", "INFO")); err != nil || !p.done {
		return err
	}
	info := parseClientInfo(p.reply)
	if !info.subscribed() {
		s.out.listenNoMore()
	}
	if !info.isPlain() {
		return nil
	}
	s.dropPrivate()
	s.name = []byte(info.name)
	s.identity.DB, s.identity.Protocol = info.db, info.protocol
	stream := s.server.config.Backend.Lane(s.identity)
	stream.Connect() // should that fail, commands will find out
	s.useStream(stream)
	s.show()
	return nil
}

// askWire sends a command of the proxy's own down the wire and waits for the
// reply. If that takes too long the probe stays, to keep the reply when it comes.
func (s *session) askWire(p probe, command redcon.Command) error {
	s.out.setProbe(p)
	s.forward(command)
	if err := s.submit(); err != nil {
		return err
	}
	if !s.out.awaitProbe(probeTime) {
		s.lasting = true
		return s.out.failure()
	}
	s.out.setProbe(nil)
	return nil
}
