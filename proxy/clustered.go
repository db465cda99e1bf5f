package proxy

import (
	"bytes"
	"strings"

	"github.com/tidwall/redcon"
)

// clusterKinds lists the commands that are something else when the upstream is a
// cluster. To its clients it is one Redis.
var clusterKinds = []struct {
	run   func(*session, redcon.Command)
	names []string
}{
	{(*session).noCluster, []string{"CLUSTER", "READONLY", "READWRITE", "ASKING"}},
	{(*session).notOnCluster, []string{
		"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH",
		"BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP",
		"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE",
		"WAIT", "WAITAOF", "MONITOR", "SYNC", "PSYNC", "REPLCONF", "SHUTDOWN", "FAILOVER",
	}},
	{(*session).blockIfOnCluster, []string{"XREAD", "XREADGROUP"}},
	{(*session).clientOnCluster, []string{"CLIENT"}},
}

// noCluster answers as a Redis that is no cluster does.
func (s *session) noCluster(redcon.Command) {
	s.reply([]byte("-ERR This instance has cluster support disabled\r\n"))
}

// notOnCluster refuses what is of one node and would not be right for all.
func (s *session) notOnCluster(cmd redcon.Command) {
	s.reply([]byte("-ERR " + strings.ToUpper(string(cmd.Args[0])) + " is not supported by cellproxy on a cluster\r\n"))
}

// blockIfOnCluster handles XREAD and XREADGROUP.
func (s *session) blockIfOnCluster(cmd redcon.Command) {
	if blocks(cmd) {
		s.notOnCluster(cmd)
		return
	}
	s.forward(cmd)
}

// clientOnCluster handles CLIENT. What needs a connection of one's own upstream
// can't be had of all nodes.
func (s *session) clientOnCluster(cmd redcon.Command) {
	if len(cmd.Args) > 1 {
		switch sub := strings.ToUpper(string(cmd.Args[1])); sub {
		case "TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH", "UNBLOCK", "PAUSE", "UNPAUSE":
			s.reply([]byte("-ERR CLIENT " + sub + " is not supported by cellproxy on a cluster\r\n"))
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
