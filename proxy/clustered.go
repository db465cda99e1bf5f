package proxy

import (
	"bytes"
	"strings"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
)

// clusterKinds lists the commands that are something else when the upstream is a
// cluster. To its clients it is one Redis.
var clusterKinds = []struct {
	run   func(*session, redcon.Command)
	names []string
}{
	{(*session).multiOnCluster, []string{"MULTI"}},
	{(*session).endMultiOnCluster, []string{"EXEC", "DISCARD"}},
	{(*session).watchOnCluster, []string{"WATCH"}},
	{(*session).unwatchOnCluster, []string{"UNWATCH"}},
	{(*session).blockOnCluster, []string{
		"BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP",
	}},
	{(*session).blockIfOnCluster, []string{"XREAD", "XREADGROUP"}},
	{(*session).subscribeOnCluster, []string{"SUBSCRIBE", "PSUBSCRIBE"}},
	{(*session).unsubscribeOnCluster, []string{"UNSUBSCRIBE", "PUNSUBSCRIBE"}},
	{(*session).subscribeShardOnCluster, []string{"SSUBSCRIBE", "SUNSUBSCRIBE"}},
	{(*session).clientOnCluster, []string{"CLIENT"}},
	{(*session).noCluster, []string{"CLUSTER", "READONLY", "READWRITE", "ASKING"}},
	{(*session).notOnCluster, []string{
		"WAIT", "WAITAOF", "MONITOR", "SYNC", "PSYNC", "REPLCONF", "SHUTDOWN", "FAILOVER",
	}},
}

// The backend keeps account of transactions, as it is there that they have a
// node. The session knows of them for what it does itself.

func (s *session) multiOnCluster(cmd redcon.Command) {
	s.multi = s.multi || len(cmd.Args) == 1
	s.forward(cmd)
}

func (s *session) endMultiOnCluster(cmd redcon.Command) {
	if s.multi && len(cmd.Args) == 1 {
		s.multi, s.watching = false, false
	}
	s.forward(cmd)
}

func (s *session) watchOnCluster(cmd redcon.Command) {
	s.watching = s.watching || !s.multi
	s.forward(cmd)
}

func (s *session) unwatchOnCluster(cmd redcon.Command) {
	if len(cmd.Args) == 1 && !s.multi {
		s.watching = false
	}
	s.forward(cmd)
}

// blockOnCluster handles a command that may wait for something.
func (s *session) blockOnCluster(cmd redcon.Command) {
	s.blocking = !s.multi
	s.add(backend.Request{Bytes: cmd.Raw, Blocks: true})
	s.submit()
}

// blockIfOnCluster handles XREAD and XREADGROUP.
func (s *session) blockIfOnCluster(cmd redcon.Command) {
	if blocks(cmd) {
		s.blockOnCluster(cmd)
		return
	}
	s.forward(cmd)
}

// noCluster answers as a Redis that is no cluster does.
func (s *session) noCluster(redcon.Command) {
	s.refuseOnCluster("This instance has cluster support disabled")
}

// notOnCluster refuses what is of one node and would not be right for all.
func (s *session) notOnCluster(cmd redcon.Command) {
	s.refuseOnCluster(strings.ToUpper(string(cmd.Args[0])) + " is not supported by cellproxy on a cluster")
}

// notInTransaction refuses what would move the session to another connection.
func (s *session) notInTransaction(cmd redcon.Command) {
	s.refuseOnCluster(strings.ToUpper(string(cmd.Args[0])) + " is not supported by cellproxy in a transaction on a cluster")
}

// refuseOnCluster answers the command at hand with an error. A transaction fails
// with it.
func (s *session) refuseOnCluster(reason string) {
	line := []byte("-ERR " + reason + "\r\n")
	switch {
	case s.sticky:
		s.forward(redcon.Command{Raw: errorScript("ERR " + reason)})
	case s.multi:
		s.add(backend.Request{Bytes: encode([][]byte{[]byte("?")}).Raw, Instead: line})
	default:
		s.reply(line)
	}
}

// clientOnCluster handles CLIENT. What needs a connection of one's own upstream
// can't be had of all nodes.
func (s *session) clientOnCluster(cmd redcon.Command) {
	if len(cmd.Args) > 1 {
		switch sub := strings.ToUpper(string(cmd.Args[1])); sub {
		case "TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH", "CAPA", "IMPORT-SOURCE", "UNBLOCK", "PAUSE", "UNPAUSE":
			s.refuseOnCluster("CLIENT " + sub + " is not supported by cellproxy on a cluster")
			return
		}
	}
	s.client(cmd)
}

// blocks reports whether XREAD or XREADGROUP is told to wait.
func blocks(cmd redcon.Command) bool {
	for _, arg := range cmd.Args[1:] {
		if bytes.EqualFold(arg, []byte("STREAMS")) {
			break
		}
		if bytes.EqualFold(arg, []byte("BLOCK")) {
			return true
		}
	}
	return false
}
