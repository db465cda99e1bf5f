package test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellproxy/backend"
	"cellproxy/commands"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// sessionWords are the commands that random sessions are made of. None answers
// in a way that depends on the moment or the connection, but for what masks
// cover up.
var sessionWords = strings.Split(`GET k
GET k2
SET k 1
SET k2 word
INCR k
DEL k k2
APPEND k2 x
LPUSH list x y
LRANGE list 0 -1
HSET hash f v
HGETALL hash
ECHO word
PING
PING word
NOSUCH x
GET
SELECT 0
SELECT 1
SELECT 2
SELECT 99
SELECT x
MULTI
MULTI
MULTI
EXEC
EXEC
EXEC
DISCARD
WATCH k
WATCH k k2
UNWATCH
SUBSCRIBE c
UNSUBSCRIBE c
UNSUBSCRIBE
PSUBSCRIBE c*
PUNSUBSCRIBE c*
PUNSUBSCRIBE
SSUBSCRIBE s
SUNSUBSCRIBE s
PUBLISH c hello
PUBLISH nosuch hello
SPUBLISH s hello
CLIENT SETNAME alice
CLIENT SETNAME bob
CLIENT GETNAME
CLIENT REPLY ON
CLIENT REPLY OFF
CLIENT REPLY SKIP
CLIENT REPLY NOSUCH
CLIENT TRACKING ON
CLIENT TRACKING ON BCAST PREFIX k
CLIENT TRACKING ON OPTIN
CLIENT TRACKING OFF
CLIENT CACHING YES
CLIENT TRACKINGINFO
CLIENT NO-EVICT ON
CLIENT NO-EVICT OFF
CLIENT NOSUCH
HELLO
HELLO 2
HELLO 3
HELLO 2 SETNAME carol
HELLO 3 SETNAME dave
HELLO 4
HELLO 3 NOSUCH
RESET
RESET
BLPOP list 0.001
BLPOP nosuch 0.001
BLPOP k 0.001
BLMOVE list list LEFT RIGHT 0.001
BZPOPMIN nosuch 0.001
XREAD BLOCK 1 STREAMS nosuch $
XADD stream * f v
WAIT 0 1
EVAL return(redis.call('INCR',KEYS[1])) 1 k
READONLY
READWRITE
CL.THROTTLE limit 1000 1 1000000
CL.THROTTLE limit 1000 1 1000000
CL.THROTTLE limit 1000 1 1000000 3
TB.ACQUIRE bucket 100 1 1000000000
FW.ACQUIRE list 100 1000000000
ACL WHOAMI
QUIT`, "\n")

// masks cover up what may differ: the id of a connection, of a stream entry,
// and how long it takes until a limiter is full again.
var masks = []*regexp.Regexp{
	regexp.MustCompile(`(\$2\r\nid\r\n:)\d+`),
	regexp.MustCompile(`(\*5\r\n:0\r\n:\d+\r\n:\d+\r\n:-1\r\n:)\d+`),
	regexp.MustCompile(`()\$15\r\n\d{13}-\d`),
}

func masked(reply string) string {
	for _, m := range masks {
		reply = m.ReplaceAllString(reply, "$1#")
	}
	return reply
}

// turn is what one of two clients sends at once.
type turn struct {
	client   int
	commands [][]string
}

// program reads turns from bytes: one for each command, and one for whether the
// turn ends with it and whose the next is. CLIENT REPLY is left out of
// transactions: Redis would cut pieces out of the reply to EXEC. From BCAST on
// there are no pipelines: of what Redis happens to read at once, it tells at once.
func program(b []byte) []turn {
	var turns []turn
	var multi [2]bool
	at := turn{}
	alone := false
	for i := 0; i+1 < len(b); i += 2 {
		args := strings.Fields(sessionWords[int(b[i])%len(sessionWords)])
		switch args[0] {
		case "MULTI":
			multi[at.client] = true
		case "EXEC", "DISCARD", "RESET":
			multi[at.client] = false
		}
		if alone = alone || slices.Contains(args, "BCAST"); alone && len(at.commands) > 0 {
			turns = append(turns, at)
			at = turn{client: at.client}
		}
		if args[0] != "CLIENT" || args[1] != "REPLY" || !multi[at.client] {
			at.commands = append(at.commands, args)
		}
		if b[i+1]&3 != 0 { // most are not pipelined
			turns = append(turns, at)
			at = turn{client: int(b[i+1]) >> 2 & 1}
		}
	}
	return append(turns, at)
}

// lockstep is a Redis, and another with a cellproxy in front of it.
type lockstep struct {
	direct, behind *redistest.Server
	proxy          *proxytest.Proxy
	admins         [2]*wire.Conn // while a program runs
}

func newLockstep(t testing.TB) *lockstep {
	t.Helper()
	often := redistest.Options{Args: []string{"--hz", "500"}} // is looked whether a client has waited long enough
	l := &lockstep{direct: redistest.Start(t, often), behind: redistest.Start(t, often)}
	l.proxy = proxytest.Start(t, l.behind.URL())
	return l
}

// side is a client's connection to one of the two.
type side struct {
	net.Conn
	got []byte // and not compared
	eof bool
}

// run plays turns on both, and returns what was sent and answered, and the first
// difference, if there is one.
func (l *lockstep) run(t testing.TB, turns []turn) (transcript []string, difference error) {
	t.Helper()
	l.admins = [2]*wire.Conn{l.direct.Dial(t), l.behind.Dial(t)}
	for _, admin := range l.admins {
		defer admin.Close()
		admin.Do("FLUSHALL")
	}
	var clients [2][2]*side
	defer func() {
		for i := range clients {
			hangUp(clients[i])
		}
	}()
	for _, turn := range turns {
		c := &clients[turn.client]
		if c[0] == nil {
			*c = [2]*side{{Conn: dial(t, "unix", l.direct.Socket())}, {Conn: dial(t, "tcp", l.proxy.Addr())}}
		}
		sent := append(slices.Clone(turn.commands), []string{"INCR", "marker"})
		c[0].Write(wire.Encode(withoutLimiters(sent)...))
		c[1].Write(wire.Encode(sent...))
		l.await(t, slices.ContainsFunc(sent, mayBlock))
		silent := false
		for i := range clients {
			if clients[i][0] == nil {
				continue
			}
			want := clients[i][0].now(t)
			got := clients[i][1].read(len(want), clients[i][0].eof)
			silent = silent || i == turn.client && len(want) < len(sent)
			line := fmt.Sprintf("client %d sends %q: %q", turn.client, turn.commands, want)
			if !slices.Equal(got, want) || clients[i][0].eof != clients[i][1].eof {
				return append(transcript, line), fmt.Errorf("client %d got %q (end: %v)\nwant %q (end: %v)", i,
					got, clients[i][1].eof, want, clients[i][0].eof)
			}
			transcript = append(transcript, line)
			if clients[i][0].eof {
				hangUp(clients[i])
				clients[i] = [2]*side{}
			}
		}
		if silent {
			if err := l.catchUp(); err != nil {
				return transcript, err
			}
		}
	}
	return transcript, nil
}

func dial(t testing.TB, network, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func hangUp(sides [2]*side) {
	for _, s := range sides {
		if s != nil {
			s.Close()
		}
	}
}

// withoutLimiters puts scripts in the places of limiter commands.
func withoutLimiters(sent [][]string) [][]string {
	sent = slices.Clone(sent)
	for i, args := range sent {
		limiter := commands.Lookup([]byte(args[0]))
		if limiter == nil {
			continue
		}
		var call commands.Call
		words := make([][]byte, len(args))
		for j := range args {
			words[j] = []byte(args[j])
		}
		if err := limiter.Parse(words, &call); err != nil {
			panic(err)
		}
		sent[i] = split(string(call.AppendEval(nil)))
	}
	return sent
}

// split returns the words of an encoded command.
func split(encoded string) []string {
	var words []string
	_, rest, _ := strings.Cut(encoded, "\r\n")
	for rest != "" {
		var n int
		fmt.Sscanf(rest, "$%d\r\n", &n)
		_, rest, _ = strings.Cut(rest, "\r\n")
		words = append(words, rest[:n])
		rest = rest[n+2:]
	}
	return words
}

func mayBlock(args []string) bool {
	return args[0][0] == 'B' || args[0] == "XREAD" || args[0] == "WAIT"
}

// await waits until the Redis that is asked directly has done all it was sent:
// as it is one thread, when it has answered somebody else twice, in which it has
// accepted a new client and then read from it.
func (l *lockstep) await(t testing.TB, blocked bool) {
	t.Helper()
	l.admins[0].Do("PING")
	l.admins[0].Do("PING")
	for blocked && !strings.Contains(l.admins[0].Do("INFO", "clients"), "\r\nblocked_clients:0\r\n") {
	}
	l.admins[0].Do("PING")
	l.admins[0].Do("PING")
}

// catchUp waits until the Redis behind cellproxy has done the same as the
// other, of which a client may have no reply.
func (l *lockstep) catchUp() error {
	for db := range 3 {
		for _, admin := range l.admins {
			admin.Do("SELECT", fmt.Sprint(db))
		}
		want := l.admins[0].Do("GET", "marker")
		for end := time.Now().Add(wire.Patience); l.admins[1].Do("GET", "marker") != want; {
			if time.Now().After(end) {
				return fmt.Errorf("database %d: what is sent after all is run %q times directly, %q through cellproxy",
					db, want, l.admins[1].Do("GET", "marker"))
			}
		}
	}
	return nil
}

// now returns the replies that are there.
func (s *side) now(t testing.TB) []string {
	t.Helper()
	raw, err := s.Conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var buf [64 << 10]byte
	for {
		var n int
		var readErr error
		if err := raw.Read(func(fd uintptr) bool {
			n, readErr = syscall.Read(int(fd), buf[:])
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if s.eof = n == 0 && readErr == nil; n <= 0 {
			return s.take(-1)
		}
		s.got = append(s.got, buf[:n]...)
	}
}

// read returns the next n replies, or as many as come, and sees whether the
// connection ends behind them if it should.
func (s *side) read(n int, toEnd bool) []string {
	s.SetReadDeadline(time.Now().Add(wire.Patience))
	defer s.SetReadDeadline(time.Time{})
	replies := s.take(n)
	var buf [64 << 10]byte
	for len(replies) < n || toEnd {
		m, err := s.Read(buf[:])
		s.got = append(s.got, buf[:m]...)
		replies = append(replies, s.take(n-len(replies))...)
		if err != nil {
			s.eof = errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
			break
		}
	}
	return replies
}

// take takes at most n replies from what was read; -1: all.
func (s *side) take(n int) (replies []string) {
	for len(replies) != n {
		size := backend.ReplyLength(s.got)
		if size == 0 {
			break
		}
		replies = append(replies, masked(string(s.got[:size])))
		s.got = s.got[size:]
	}
	return replies
}

// FuzzSessions plays any sequence of commands of two clients.
func FuzzSessions(f *testing.F) {
	for _, seed := range []string{"", "0000", "multi and exec", "a longer one, which has more of everything in it"} {
		f.Add([]byte(seed))
	}
	l := newLockstep(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if transcript, err := l.run(t, program(b[:min(len(b), 200)])); err != nil {
			t.Fatalf("%s\n%v", strings.Join(transcript, "\n"), err)
		}
	})
}

// sessionsFlag has more random sessions played: go test ./test -run
// TestRandomSessions -args -sessions 10000.
var sessionsFlag = flag.Int("sessions", 100, "how many programs of two clients are played")

// TestRandomSessions plays random sequences.
func TestRandomSessions(t *testing.T) {
	const length = 60
	rng := newRand(t)
	l := newLockstep(t)
	for range *sessionsFlag {
		b := make([]byte, 2*length)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		turns := program(b)
		transcript, err := l.run(t, turns)
		if err == nil {
			continue
		}
		turns = shrinkTurns(turns, func(turns []turn) bool { _, err := l.run(t, turns); return err != nil })
		if shorter, again := l.run(t, turns); again != nil {
			transcript, err = shorter, again
		}
		t.Fatalf("%s\n%v", strings.Join(transcript, "\n"), err)
	}
}

// shrinkTurns leaves out what is not needed for the failure.
func shrinkTurns(turns []turn, fails func([]turn) bool) []turn {
	end := time.Now().Add(shrinkTime)
	turns = without(end, turns, fails)
	for i := range turns {
		turns[i].commands = without(end, turns[i].commands, func(commands [][]string) bool {
			fewer := slices.Clone(turns)
			fewer[i].commands = commands
			return fails(fewer)
		})
	}
	return turns
}
