package proxy

import (
	"bytes"
	"context"
	"strings"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
)

// subscribeOnCluster handles the subscriptions that any node serves: what is
// published anywhere comes to all.
func (s *session) subscribeOnCluster(cmd redcon.Command) {
	if s.goSticky(cmd) {
		s.subscribe(cmd)
	}
}

// unsubscribeOnCluster handles the end of these.
func (s *session) unsubscribeOnCluster(cmd redcon.Command) {
	if s.goSticky(cmd) {
		s.loosen(cmd)
	}
}

// subscribeShardOnCluster handles the subscriptions that are of the node of a
// slot. How many there are, only somebody who knows a channel of that node could
// ask.
func (s *session) subscribeShardOnCluster(cmd redcon.Command) {
	if s.sticky && !s.stream.Belongs(cmd.Args, s.wire()) {
		s.refuseOnCluster("cellproxy does not support shard channels of several nodes on one connection")
		return
	}
	if s.goSticky(cmd) {
		s.subscribe(cmd)
		s.lasting = true
	}
}

// wire returns the private connection, if there is one.
func (s *session) wire() *backend.Private {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.private
}

// goSticky makes the session a wire to the node that a command belongs to, if it
// is not one yet. It reports false when it has answered the command.
func (s *session) goSticky(cmd redcon.Command) bool {
	switch {
	case s.sticky:
		return true
	case s.multi || s.watching:
		s.notInTransaction(cmd)
		return false
	case s.settle() != nil:
		return false
	}
	private, err := s.stream.Private(context.Background(), &s.out, cmd.Args)
	if err != nil {
		s.reply(refusal(err))
		return false
	}
	s.out.mu.Lock()
	s.out.private, s.out.transient = private, false
	s.out.mu.Unlock()
	private.PassThrough()
	s.sticky = true
	s.out.listen(true)
	s.passReplyMode()
	return true
}

// stuckCommands are what a wire to one node of a cluster may be used for.
var stuckCommands = [][]byte{
	[]byte("SUBSCRIBE"), []byte("UNSUBSCRIBE"), []byte("PSUBSCRIBE"), []byte("PUNSUBSCRIBE"),
	[]byte("SSUBSCRIBE"), []byte("SUNSUBSCRIBE"), []byte("PING"), []byte("QUIT"), []byte("RESET"),
	[]byte("HELLO"), []byte("CLIENT"),
}

// notOnWire refuses what may belong to another node.
func (s *session) notOnWire(cmd redcon.Command) {
	s.refuseOnCluster(strings.ToUpper(string(cmd.Args[0])) + " is not supported by cellproxy while there are subscriptions on a cluster: use another connection, UNSUBSCRIBE or RESET")
}

// isStuck reports whether a command has to be refused because the session is a
// wire to one node of a cluster. It is none any more if it has unsubscribed.
func (s *session) isStuck(name []byte) bool {
	if !s.sticky || !s.server.config.Backend.Clustered() {
		return false
	}
	for _, allowed := range stuckCommands {
		if bytes.EqualFold(name, allowed) {
			return false
		}
	}
	if s.leaving {
		s.leaveWire()
	}
	return s.sticky
}
