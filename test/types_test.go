package test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// typedCommands are answered with every type of RESP3, by Redis's own commands,
// by scripts, and by DEBUG PROTOCOL, which knows no other purpose. Some come
// with a push.
var typedCommands = strings.Split(`DEBUG PROTOCOL string
DEBUG PROTOCOL integer
DEBUG PROTOCOL double
DEBUG PROTOCOL null
DEBUG PROTOCOL array
DEBUG PROTOCOL set
DEBUG PROTOCOL map
DEBUG PROTOCOL attrib
DEBUG PROTOCOL push
DEBUG PROTOCOL verbatim
DEBUG PROTOCOL bignum
DEBUG PROTOCOL true
DEBUG PROTOCOL false
DEBUG PROTOCOL nosuch
DEBUG PROTOCOL
HGETALL h
HGETALL nosuch
HRANDFIELD h 0 WITHVALUES
SMEMBERS s
SMEMBERS nosuch
SINTER s s
ZSCORE z a
ZSCORE z b
ZSCORE z c
ZSCORE z nosuch
ZMSCORE z a b nosuch
ZRANGE z 0 -1 WITHSCORES
ZPOPMIN nosuch
ZADD z INCR 1 d
ZRANDMEMBER nosuch 3 WITHSCORES
GEOPOS z nosuch
GEODIST z a nosuch
GET nosuch
GET big
LRANGE nosuch 0 -1
LPOP nosuch
LPOP nosuch 3
CONFIG GET maxmemory*
LOLWUT VERSION 1
XREAD STREAMS x 0
XREAD STREAMS x $
XRANGE x - +
XINFO STREAM x FULL
XINFO HELP
LCS k1 k2 IDX
LCS k1 k2 IDX WITHMATCHLEN
COMMAND INFO get nosuch
COMMAND DOCS nosuch
ACL GETUSER default
FUNCTION LIST
FUNCTION STATS
CLIENT TRACKINGINFO
PUBSUB NUMSUB c d
MEMORY HELP
EVAL redis.setresp(3);return{map={a=1}} 0
EVAL redis.setresp(3);return{set={a=true}} 0
EVAL redis.setresp(3);return{double=3.141592653589793} 0
EVAL redis.setresp(3);return{double=math.huge} 0
EVAL redis.setresp(3);return{double=-math.huge} 0
EVAL redis.setresp(3);return{double=0/0} 0
EVAL redis.setresp(3);return{big_number='1234567999999999999999999999999999999'} 0
EVAL redis.setresp(3);return{verbatim_string={format='mkd',string='#~title\r\n'}} 0
EVAL redis.setresp(3);return{true,false,nil} 0
EVAL redis.setresp(3);return{{map={a={set={x=true}}}},{map={}},{set={}},{},{double=1}} 0
EVAL redis.setresp(3);return~redis.call('ZSCORE','z','a') 0
EVAL redis.setresp(3);return~redis.call('HGETALL','h') 0
EVAL redis.setresp(3);return~redis.call('SMEMBERS','s') 0
EVAL redis.setresp(3);return~redis.call('GET','nosuch') 0
EVAL redis.setresp(3);return~redis.call('DEBUG','PROTOCOL','attrib') 0
EVAL redis.setresp(3);return~redis.call('DEBUG','PROTOCOL','bignum') 0
EVAL redis.setresp(3);return~redis.call('DEBUG','PROTOCOL','verbatim') 0
EVAL return{err='MY~error'} 0
EVAL return~false 0
PING
ECHO hello`, "\n")

// prepareTypes makes what typedCommands ask for.
func (p *pair) prepareTypes(t *testing.T) {
	p.reset(t, redistest.Options{})
	for _, command := range []string{
		"HSET h f v", "SADD s a", "ZADD z 3.25 a inf b -1e300 c", "XADD x 1-1 f v", "XGROUP CREATE x g 0",
		"SET k1 ohmytext", "SET k2 mynewtext", "SET big " + strings.Repeat("x", 100_000),
	} {
		p.admin.Do(strings.Fields(command)...)
	}
}

// until sends commands and returns all that comes until the end is echoed.
func until(conn *wire.Conn, commands ...[]string) (replies []string) {
	const end = "the end of this"
	conn.Send(append(slices.Clone(commands), []string{"ECHO", end})...)
	for {
		reply := conn.Reply()
		if strings.HasSuffix(reply, end+"\r\n") {
			return replies
		}
		replies = append(replies, withoutMoments(reply))
	}
}

// moments are what of these replies depends on when they are asked for.
var moments = regexp.MustCompile(`(seen-time|pel|entries-read|lag)\r\n:\d+`)

func withoutMoments(reply string) string { return moments.ReplaceAllString(withoutID(reply), "$1") }

// TestTypesAreAnsweredAlike asks for all types in both protocols: one by one,
// all at once, in a transaction, and on a connection of the client's own.
func TestTypesAreAnsweredAlike(t *testing.T) {
	p := newPair(t, redistest.Options{})
	var commands [][]string
	for _, command := range typedCommands {
		commands = append(commands, fields(command))
	}
	transaction := slices.Concat([][]string{{"MULTI"}}, commands, [][]string{{"EXEC"}})
	one := func(conn *wire.Conn) (replies []string) {
		for _, command := range commands {
			replies = append(replies, until(conn, command)...)
		}
		return replies
	}
	all := func(conn *wire.Conn) []string { return until(conn, commands...) }
	for _, protocol := range []string{"2", "3"} {
		for _, setup := range []string{"PING", "WATCH k1", "CLIENT TRACKING ON BCAST PREFIX nosuch", "SUBSCRIBE nothing"} {
			if protocol == "2" && setup == "SUBSCRIBE nothing" {
				continue // after which RESP2 allows nothing else
			}
			for name, ask := range map[string]func(*wire.Conn) []string{
				"one by one": one, "pipelined": all,
				"transaction": func(conn *wire.Conn) []string { return until(conn, transaction...) },
			} {
				t.Run(fmt.Sprintf("RESP%s/%s/%s", protocol, setup, name), func(t *testing.T) {
					answers := func(conn *wire.Conn) []string {
						p.prepareTypes(t)
						conn.Do("HELLO", protocol)
						conn.Do(fields(setup)...)
						return ask(conn)
					}
					want, got := answers(p.redis.Dial(t)), answers(p.proxy.Dial(t))
					for i, reply := range want {
						if i >= len(got) || got[i] != reply {
							t.Fatalf("reply %d:\n got %.1000q\nwant %.1000q", i, got[min(i, len(got)):], want[i:])
						}
					}
				})
			}
		}
	}
}

// fields splits a command into its words. A tilde stands for a blank.
func fields(command string) []string {
	args := strings.Fields(command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "~", " ")
	}
	return args
}
