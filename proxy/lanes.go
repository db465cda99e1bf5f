package proxy

import (
	"bytes"
	"context"
	"strconv"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
)

// isPrivate reports whether the session's commands go to a private connection.
func (s *session) isPrivate() bool {
	return s.out.privateConn() != nil
}

// goPrivate gives the session a private connection if it has none, once all it
// sent on the shared stream has been answered. It reports false when there is
// none to be had; the command at hand has then been answered.
func (s *session) goPrivate() bool {
	s.submit()
	if s.holdPrivate() {
		return true
	}
	if s.settle() != nil {
		return false
	}
	private, err := s.server.config.Backend.Private(context.Background(), s.identity, &s.out)
	if err != nil {
		s.reply(refusal(err))
		return false
	}
	s.out.mu.Lock()
	s.out.private, s.out.transient = private, false
	s.out.mu.Unlock()
	if private.Name != string(s.name) {
		private.Name = string(s.name)
		s.requests = append(s.requests, backend.Request{
			Bytes: encode([][]byte{[]byte("CLIENT"), []byte("SETNAME"), s.name}).Raw, Discard: true,
		})
	}
	return true
}

// holdPrivate keeps the private connection, if there is one, from being given
// back when the replies under way have come. It reports whether there is one.
func (s *session) holdPrivate() bool {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.transient = false
	return s.out.private != nil
}

// startMulti handles MULTI: the transaction lives on a private connection. That
// of a muted session is a wire from the beginning: within it, the upstream could
// not be told of that any more.
func (s *session) startMulti(cmd redcon.Command) {
	if s.sticky || s.muted {
		s.stick(cmd)
		s.multi = s.multi || len(cmd.Args) == 1
		return
	}
	if s.goPrivate() {
		s.multi = s.multi || len(cmd.Args) == 1
		s.forward(cmd)
	}
}

// endMulti handles EXEC and DISCARD, which end WATCH too. The connection is
// told so once more: should the upstream have refused the MULTI, it still
// watches.
func (s *session) endMulti(cmd redcon.Command) {
	if s.sticky && len(cmd.Args) == 1 {
		s.multi = false
		s.loosen(cmd)
		return
	}
	if !s.multi || len(cmd.Args) != 1 {
		s.forward(cmd)
		return
	}
	s.submit()
	watched := s.watching
	s.multi, s.watching = false, false
	s.forward(cmd)
	if watched {
		s.add(backend.Request{Bytes: []byte("*1\r\n$7\r\nUNWATCH\r\n"), Discard: true})
	}
}

// watch handles WATCH.
func (s *session) watch(cmd redcon.Command) {
	if s.sticky {
		s.stickForGood(cmd) // when EXEC ends it can't be seen
	} else if s.multi {
		s.forward(cmd)
	} else if s.goPrivate() {
		s.watching = true
		s.forward(cmd)
	}
}

// unwatch handles UNWATCH.
func (s *session) unwatch(cmd redcon.Command) {
	if s.sticky {
		s.forward(cmd)
		return
	}
	s.submit()
	if len(cmd.Args) == 1 && !s.multi {
		s.watching = false
	}
	s.forward(cmd)
}

// block handles a command that may wait for something: meanwhile nobody else's
// commands may stand behind it.
func (s *session) block(cmd redcon.Command) {
	if s.sticky {
		s.stickForGood(cmd) // when it is over can't be seen
		s.out.listen(false)
	} else if s.goPrivate() {
		s.blocking = !s.multi
		s.add(backend.Request{Bytes: cmd.Raw, Blocks: true})
		s.submit()
	}
}

// blockIf handles XREAD and XREADGROUP, which wait only when told to.
func (s *session) blockIf(cmd redcon.Command) {
	if blocks(cmd) {
		s.block(cmd)
		return
	}
	s.forward(cmd)
}

// wait handles WAIT and WAITAOF. They ask about the writes before them on
// their own connection; any command there, even a PING, stands for all that
// the upstream had written until then.
func (s *session) wait(cmd redcon.Command) {
	if !s.sticky && !s.multi && s.goPrivate() {
		s.add(backend.Request{Bytes: []byte("*1\r\n$4\r\nPING\r\n"), Discard: true})
	}
	s.block(cmd)
}

// settleOn waits until the private connection owes nothing, and keeps it.
func (s *session) settleOn() error {
	s.keep = true
	defer func() { s.keep = false }()
	s.holdPrivate()
	return s.settle()
}

// refuse answers a limiter command whose arguments are wrong. On a private
// connection the upstream is made to say it, so that the error keeps its place
// and a transaction knows of it.
func (s *session) refuse(cmd redcon.Command, reason error) {
	line := []byte("-" + reason.Error() + "\r\n")
	if !s.isPrivate() && !s.multi {
		s.reply(line)
		return
	}
	if s.multi && !s.sticky && bytes.HasPrefix(line, []byte("-ERR wrong number of arguments")) {
		// As the upstream does not know the command, the transaction fails.
		s.add(backend.Request{Bytes: cmd.Raw, Instead: line})
		return
	}
	s.add(backend.Request{Bytes: errorScript(reason.Error())})
}

// errorScript is a command that is answered with the error text.
func errorScript(text string) []byte {
	var b []byte
	b = redcon.AppendArray(b, 4)
	b = redcon.AppendBulkString(b, "EVAL")
	b = redcon.AppendBulkString(b, "return redis.error_reply(ARGV[1])")
	b = redcon.AppendBulkString(b, strconv.Itoa(0))
	return redcon.AppendBulkString(b, text)
}

// leavePrivate ends the private connection, if there is one, after the client
// has been given all that was sent on it before.
func (s *session) leavePrivate() error {
	if s.sticky {
		if err := s.resetWire(); err != nil {
			return err
		}
	} else if err := s.settleOn(); err != nil {
		return err
	}
	s.dropPrivate()
	return nil
}

// dropPrivate ends the private connection, if there is one, and what there was
// for it.
func (s *session) dropPrivate() {
	s.out.mu.Lock()
	private := s.out.private
	s.out.private, s.out.wanted = nil, false
	s.out.mu.Unlock()
	if private != nil {
		private.Discard()
	}
	s.out.listenNoMore()
	s.multi, s.watching, s.blocking = false, false, false
	s.sticky, s.lasting, s.leaving, s.sharded = false, false, false, false
}
