package proxy

import (
	"strings"

	"github.com/tidwall/redcon"

	"cellproxy/commands"
)

// route says what becomes of a command. The zero route is forwarded as it is.
type route struct {
	limiter *commands.Command
	kind    int // of request, for counting
	run     func(*session, redcon.Command)
	script  bool // forwarded, and runs a script of the client's
}

// routes is what becomes of the commands that are not just forwarded, by their
// upper-case name.
type routes map[string]route

// kinds lists the commands that concern their connection, by what is done
// about it.
var kinds = []struct {
	run   func(*session, redcon.Command)
	names []string
}{
	{(*session).startMulti, []string{"MULTI"}},
	{(*session).endMulti, []string{"EXEC", "DISCARD"}},
	{(*session).watch, []string{"WATCH"}},
	{(*session).unwatch, []string{"UNWATCH"}},
	{(*session).block, []string{
		"BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP",
	}},
	{(*session).blockIf, []string{"XREAD", "XREADGROUP"}},
	{(*session).wait, []string{"WAIT", "WAITAOF"}},
	{(*session).subscribe, []string{"SUBSCRIBE", "PSUBSCRIBE"}},
	{(*session).subscribeShard, []string{"SSUBSCRIBE"}},
	{(*session).loosen, []string{"UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "READONLY", "READWRITE"}},
	{(*session).monitor, []string{"MONITOR", "SYNC", "PSYNC"}},
	{(*session).stickForGood, []string{"ASKING", "REPLCONF"}},
	{(*session).hello, []string{"HELLO"}},
	{(*session).auth, []string{"AUTH"}},
	{(*session).selectDB, []string{"SELECT"}},
	{(*session).client, []string{"CLIENT"}},
	{(*session).command, []string{"COMMAND"}},
	{(*session).script, []string{"SCRIPT"}},
	{(*session).describe, []string{"INFO"}},
	{(*session).debug, []string{"DEBUG"}},
	{(*session).reset, []string{"RESET"}},
	{(*session).end, []string{"QUIT"}},
	{(*session).cutBrowser, []string{"POST", "HOST:"}},
}

// newRoutes returns the routes where some commands are refused and the upstream
// is a cluster, or not.
func newRoutes(refused []string, clustered bool) routes {
	r := make(routes)
	for i, limiter := range commands.All() {
		r[limiter.Name] = route{limiter: limiter, kind: 1 + i}
	}
	for _, kind := range kinds {
		for _, name := range kind.names {
			r[name] = route{run: kind.run}
		}
	}
	for _, name := range []string{"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"} {
		r[name] = route{script: true}
	}
	if clustered {
		for _, kind := range clusterKinds {
			for _, name := range kind.names {
				r[name] = route{run: kind.run}
			}
		}
	}
	for _, name := range refused {
		r[strings.ToUpper(name)] = route{run: (*session).notServed}
	}
	return r
}

// longestName bounds the names that can be in routes.
const longestName = 32

// find returns the route of a command named in any letter case.
func (r routes) find(name []byte) route {
	var upper [longestName]byte
	if len(name) > len(upper) {
		return route{}
	}
	return r[string(appendUpper(upper[:0], name))]
}

// appendUpper appends a word in upper case.
func appendUpper(dst, word []byte) []byte {
	for _, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
