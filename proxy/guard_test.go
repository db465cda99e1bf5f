package proxy

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tidwall/redcon"
)

// toRedcon checks what the guard lets redcon read.
type toRedcon struct {
	t testing.TB
	g *guard
}

func (r toRedcon) Read(p []byte) (int, error) {
	n, err := r.g.Read(p)
	if err == nil && (n == 0 || string(p[:n]) != strings.Repeat(token, n/len(token))) {
		r.t.Errorf("redcon is given %q", p[:n])
	}
	return n, err
}

// drain returns what redcon and the guard make of a stream: the commands as
// they would go upstream, and the error after them. run, if any, is called
// with each command as the session would be.
func drain(t testing.TB, g *guard, run func(redcon.Command)) (commands []string, err error) {
	t.Helper()
	r := redcon.NewReader(toRedcon{t, g})
	for {
		cmd, err := r.ReadCommand()
		if err != nil {
			return commands, err
		}
		cmd = g.resolve(cmd)
		if got, want := string(cmd.Raw), string(encode(cmd.Args).Raw); got != want {
			t.Errorf("Raw is %.200q, Args are %.200q", got, want)
		}
		commands = append(commands, string(cmd.Raw))
		if run != nil {
			run(cmd)
		}
	}
}

// guarded drains a new guard.
func guarded(t testing.TB, src io.Reader, authenticated bool) (commands []string, err error) {
	t.Helper()
	g := newGuard(src)
	g.authenticated = authenticated
	return drain(t, g, nil)
}

// protocolText is the text of a protocol error, or nothing for the end of a
// stream.
func protocolText(t testing.TB, err error) string {
	t.Helper()
	var broken *protocolError
	if errors.As(err, &broken) {
		return broken.text
	}
	if err != io.EOF {
		t.Errorf("got error %v, want a protocol error or the end", err)
	}
	return ""
}

func compareCommands(t testing.TB, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("got %d commands, want %d; from number %d on got %.200q, want %.200q",
				len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
			return
		}
	}
}

func encoded(args ...string) string {
	b := redcon.AppendArray(nil, len(args))
	for _, arg := range args {
		b = redcon.AppendBulkString(b, arg)
	}
	return string(b)
}

// stream is what a client may send, and what that means however it is cut.
type stream struct {
	name     string
	in       string
	stranger bool
	want     []string
	err      string // "" is the end of the stream
}

// streams mean the same to Redis.
var streams = []stream{
	{name: "nothing"},
	{name: "one", in: encoded("PING"), want: []string{encoded("PING")}},
	{name: "two", in: encoded("ECHO", "a") + encoded("SET", "a", "b\r\nc"), want: []string{encoded("ECHO", "a"), encoded("SET", "a", "b\r\nc")}},
	{name: "a command in a command", in: encoded("SET", "k", encoded("FLUSHALL")), want: []string{encoded("SET", "k", encoded("FLUSHALL"))}},
	{name: "the token", in: token + "SET k v\r\n" + token, want: []string{token, encoded("SET", "k", "v"), token}},
	{name: "zero bytes", in: encoded("SET", "\x00", "a\x00b"), want: []string{encoded("SET", "\x00", "a\x00b")}},
	{name: "empty argument", in: encoded("SET", "", ""), want: []string{encoded("SET", "", "")}},
	{name: "empty name", in: encoded("") + encoded("PING"), want: []string{encoded(""), encoded("PING")}},
	{name: "unfinished", in: encoded("PING") + "*2\r\n$4\r\nECHO\r\n$5\r\nhell", want: []string{encoded("PING")}},
	{name: "unfinished count", in: encoded("PING") + "*2\r", want: []string{encoded("PING")}},
	{name: "unfinished inline", in: encoded("PING") + "PING\r", want: []string{encoded("PING")}},

	{name: "blank", in: "\r\n\n  \t\r\n*0\r\n*-1\r\n*-10\r\n*-9223372036854775808\r\n" + encoded("PING"), want: []string{encoded("PING")}},
	{name: "inline", in: "SET  a\t'b c'\r\nping\n", want: []string{encoded("SET", "a", "b c"), encoded("ping")}},
	{name: "inline among others", in: encoded("GET", "a") + "GET b\r\n" + encoded("GET", "c"), want: []string{encoded("GET", "a"), encoded("GET", "b"), encoded("GET", "c")}},
	{name: "inline double quotes", in: `SET "a\x41\n\r\t\b\a\"\\\q\x4" x` + "\r\n", want: []string{encoded("SET", "aA\n\r\t\b\a\"\\qx4", "x")}},
	{name: "inline single quotes", in: `SET 'it\'s \n \x41 \\ ' x` + "\r\n", want: []string{encoded("SET", `it's \n \x41 \\ `, "x")}},
	{name: "inline empty quotes", in: "SET a \"\" ''\n", want: []string{encoded("SET", "a", "", "")}},
	{name: "inline quotes begin within a word", in: "SET a\"b c\" d'e f'\n", want: []string{encoded("SET", "ab c", "de f")}},
	{name: "inline vertical tab", in: "\v\fECHO \va\vb\f\v\r\n", want: []string{encoded("ECHO", "a\vb\f\v")}},
	{name: "inline returns", in: "ECHO a\rb\r\r\n", want: []string{encoded("ECHO", "a", "b")}},
	{name: "inline backslash", in: "ECHO a\\nb\r\n", want: []string{encoded("ECHO", "a\\nb")}},
	{name: "inline dollar", in: "$3\r\nGET\r\n", want: []string{encoded("$3"), encoded("GET")}},
	{name: "inline longest", in: strings.Repeat("a", maxLine) + "\nPING\n", want: []string{encoded(strings.Repeat("a", maxLine)), encoded("PING")}},
	{name: "inline longest with return", in: strings.Repeat("a", maxLine-1) + "\r\nPING\n", want: []string{encoded(strings.Repeat("a", maxLine-1)), encoded("PING")}},
	{name: "inline endless", in: strings.Repeat("a", maxLine+1), err: "too big inline request"},
	{name: "inline with a zero byte", in: "PING\nPING\x00\nPING\n", want: []string{encoded("PING")}},
	{name: "inline with a zero byte, endless", in: "PING\x00\n" + strings.Repeat("PING\n", maxLine/5), err: "too big inline request"},
	{name: "inline unbalanced", in: encoded("PING") + "SET a \"b\r\n", want: []string{encoded("PING")}, err: "unbalanced quotes in request"},
	{name: "inline unbalanced single", in: "SET a 'b\\'\r\n", err: "unbalanced quotes in request"},
	{name: "inline closed within a word", in: "SET \"a\"b\r\n", err: "unbalanced quotes in request"},
	{name: "inline closed within a word single", in: "SET 'a''b'\r\n", err: "unbalanced quotes in request"},
	{name: "inline backslash at the end", in: "SET \"a\\\r\n", err: "unbalanced quotes in request"},

	{name: "other terminators", in: "*1\rx$4\ryPING\rz" + encoded("PING"), want: []string{encoded("PING"), encoded("PING")}},
	{name: "other terminators after arguments", in: "*2\r\n$4\r\nECHOxx$1\r\n\rab", want: []string{encoded("ECHO", "\r")}},
	{name: "line feeds alone", in: "*1\n$4\nPING\n", want: nil},

	{name: "large", in: encoded("SET", "k", strings.Repeat("v", 300_000)) + encoded("PING"), want: []string{encoded("SET", "k", strings.Repeat("v", 300_000)), encoded("PING")}},
	{name: "large after small", in: encoded("PING") + encoded("SET", "k", strings.Repeat("v", 100_000)) + "PING\n", want: []string{encoded("PING"), encoded("SET", "k", strings.Repeat("v", 100_000)), encoded("PING")}},
	{name: "large with other terminators", in: "*2\r\n$4\r\nECHO\r\n$100000\r\n" + strings.Repeat("v", 100_000) + "xx" + encoded("PING"), want: []string{encoded("ECHO", strings.Repeat("v", 100_000)), encoded("PING")}},
	{name: "many arguments", in: encoded(slices.Repeat([]string{"a"}, 50_000)...) + encoded("PING"), want: []string{encoded(slices.Repeat([]string{"a"}, 50_000)...), encoded("PING")}},

	{name: "bulk of all integers", in: encoded("PING") + "*1\r\n$9223372036854775807\r\n", want: []string{encoded("PING")}, err: "invalid bulk length"},
	{name: "count of all integers", in: "*9223372036854775807\r\n", err: "invalid multibulk length"},
	{name: "count of more than an int", in: "*2147483648\r\n", err: "invalid multibulk length"},
	{name: "count beyond integers", in: "*9223372036854775808\r\n", err: "invalid multibulk length"},
	{name: "count below integers", in: "*-9223372036854775809\r\n", err: "invalid multibulk length"},
	{name: "most arguments", in: "*1048576\r\n$1\r\na\r\n"},
	{name: "count not a number", in: "*abc\r\n", err: "invalid multibulk length"},
	{name: "count with zeros", in: "*03\r\n", err: "invalid multibulk length"},
	{name: "count with a plus", in: "*+1\r\n", err: "invalid multibulk length"},
	{name: "count with blanks", in: "* 1\r\n", err: "invalid multibulk length"},
	{name: "count with a minus alone", in: "*-\r\n", err: "invalid multibulk length"},
	{name: "count minus zero", in: "*-0\r\n", err: "invalid multibulk length"},
	{name: "no count", in: "*\r\n", err: "invalid multibulk length"},
	{name: "count with a zero byte", in: "*1\x00\r\n$4\r\nPING\r\n"},
	{name: "largest bulk", in: "*1\r\n$536870912\r\nx"},
	{name: "bulk too large", in: "*1\r\n$536870913\r\n", err: "invalid bulk length"},
	{name: "bulk negative", in: "*1\r\n$-1\r\n", err: "invalid bulk length"},
	{name: "bulk with zeros", in: "*1\r\n$04\r\nPING\r\n", err: "invalid bulk length"},
	{name: "no bulk length", in: "*1\r\n$\r\n", err: "invalid bulk length"},
	{name: "no dollar", in: "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", err: "expected '$', got 'f'"},
	{name: "an integer", in: encoded("PING") + "*1\r\n:1\r\n", want: []string{encoded("PING")}, err: "expected '$', got ':'"},
	{name: "a zero byte for a dollar", in: encoded("PING") + "*1\r\n\x004\r\nPING\r\n", want: []string{encoded("PING")}},
	{name: "a nested array", in: "*1\r\n*1\r\n$4\r\nPING\r\n", err: "expected '$', got '*'"},
	{name: "beyond ASCII", in: "*1\r\n\xff4\r\nPING\r\n", err: "expected '$', got '\xff'"},
	{name: "a line feed for a dollar", in: "*1\r\n\n\r\n", err: "expected '$', got ' '"},
	{name: "empty bulk line", in: "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n\r\n", err: "expected '$', got ' '"},
	{name: "longest count", in: "*" + strings.Repeat("1", maxLine-1) + "\r\n", err: "invalid multibulk length"},
	{name: "endless count", in: "*" + strings.Repeat("1", maxLine), err: "too big mbulk count string"},
	{name: "endless bulk length", in: "*1\r\n$" + strings.Repeat("1", maxLine), err: "too big bulk count string"},
	{name: "endless no dollar", in: "*1\r\n" + strings.Repeat("\n", maxLine+1), err: "too big bulk count string"},

	{name: "stranger's arguments", stranger: true, in: encoded("PING") + "*11\r\n", want: []string{encoded("PING")}, err: "unauthenticated multibulk length"},
	{name: "stranger's bulk", stranger: true, in: encoded("PING") + "*1\r\n$16385\r\n", want: []string{encoded("PING")}, err: "unauthenticated bulk length"},
	{name: "stranger's most arguments", stranger: true, in: encoded(slices.Repeat([]string{"a"}, 10)...), want: []string{encoded(slices.Repeat([]string{"a"}, 10)...)}},
	{name: "stranger's largest bulk", stranger: true, in: encoded("AUTH", strings.Repeat("p", 16384)), want: []string{encoded("AUTH", strings.Repeat("p", 16384))}},
	{name: "stranger's count too large for others", stranger: true, in: "*1048577\r\n", err: "unauthenticated multibulk length"},
	{name: "stranger's count too large for anybody", stranger: true, in: "*2147483648\r\n", err: "invalid multibulk length"},
	{name: "stranger's bulk too large for anybody", stranger: true, in: "*1\r\n$536870913\r\n", err: "invalid bulk length"},
}

// moreStreams can't be compared with Redis: there a line may be longer when its
// end happens to be read with its beginning, and a command may have more
// arguments; and of a stranger's line no command can be made that a stranger
// may send.
var moreStreams = []stream{
	{name: "inline too long", in: encoded("PING") + strings.Repeat("a", maxLine+1) + "\n", want: []string{encoded("PING")}, err: "too big inline request"},
	{name: "too many arguments", in: "*1048577\r\n", err: "invalid multibulk length"},
	{name: "stranger's line", stranger: true, in: strings.Repeat("a ", 1000) + "\n", want: []string{encoded(slices.Repeat([]string{"a"}, 1000)...)}},
}

func TestGuard(t *testing.T) {
	for _, tt := range slices.Concat(streams, moreStreams) {
		for _, cut := range []struct {
			name string
			src  io.Reader
		}{
			{"at once", strings.NewReader(tt.in)},
			{"in halves", iotest.HalfReader(strings.NewReader(tt.in))},
			{"byte by byte", iotest.OneByteReader(strings.NewReader(tt.in))},
			{"with the error", iotest.DataErrReader(strings.NewReader(tt.in))},
		} {
			t.Run(tt.name+" "+cut.name, func(t *testing.T) {
				got, err := guarded(t, cut.src, !tt.stranger)
				compareCommands(t, got, tt.want)
				if got := protocolText(t, err); got != tt.err {
					t.Errorf("got error %q, want %q", got, tt.err)
				}
			})
		}
	}
}

// pieces is a source that gives at most so many bytes at once.
type pieces struct {
	text string
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}

// TestGuardSplits cuts one stream of all sorts of commands in pieces of every
// size, which is in every place.
func TestGuardSplits(t *testing.T) {
	var in strings.Builder
	var want []string
	for _, tt := range streams {
		// Those that come to an end by themselves can be followed.
		followed, _ := reference(tt.in+encoded("PING"), true)
		if len(tt.in) < 300 && slices.Equal(followed, append(slices.Clone(tt.want), encoded("PING"))) {
			in.WriteString(tt.in)
			want = append(want, tt.want...)
		}
	}
	if len(want) < 20 {
		t.Fatalf("only %d commands can be followed", len(want))
	}
	large := encoded("SET", "k", strings.Repeat("v", 5000))
	in.WriteString(large + "PING\n*1\r\n$x\r\n")
	want = append(want, large, encoded("PING"))
	for size := 1; size <= in.Len(); size++ {
		got, err := guarded(t, &pieces{in.String(), size}, true)
		compareCommands(t, got, want)
		if got := protocolText(t, err); got != "invalid bulk length" {
			t.Errorf("got error %q", got)
		}
		if t.Failed() {
			t.Fatalf("in pieces of %d", size)
		}
	}
}

// TestGuardProtocolErrorStays checks that nothing is looked for behind a
// protocol error, and how it reads.
func TestGuardProtocolErrorStays(t *testing.T) {
	g := newGuard(strings.NewReader("*x\r\n" + encoded("PING")))
	for range 3 {
		n, err := g.Read(make([]byte, 4096))
		if got, want := err, "ERR Protocol error: invalid multibulk length"; n != 0 || got == nil || got.Error() != want {
			t.Errorf("got %d, %v, want 0, %s", n, got, want)
		}
	}
}

// TestGuardSeesAuthentication checks that commands behind AUTH are judged when
// AUTH has been run, though they arrived with it.
func TestGuardSeesAuthentication(t *testing.T) {
	many := encoded(append([]string{"DEL"}, slices.Repeat([]string{"k"}, 20)...)...)
	long := encoded("SET", "k", strings.Repeat("v", maxStrangerBulk+1))
	for _, tt := range []struct {
		name, in string
		want     []string
		err      string
	}{
		{"arguments", encoded("AUTH", "yes") + many, []string{encoded("AUTH", "yes"), many}, ""},
		{"bulk", encoded("AUTH", "yes") + encoded("PING") + long, []string{encoded("AUTH", "yes"), encoded("PING"), long}, ""},
		{"inline AUTH", "AUTH yes\n" + long + many, []string{encoded("AUTH", "yes"), long, many}, ""},
		{"arguments refused", encoded("AUTH", "no") + many, []string{encoded("AUTH", "no")}, "unauthenticated multibulk length"},
		{"bulk refused", encoded("AUTH", "no") + long, []string{encoded("AUTH", "no")}, "unauthenticated bulk length"},
	} {
		for _, size := range []int{1, 100, 1 << 20} {
			t.Run(tt.name, func(t *testing.T) {
				g := newGuard(&pieces{tt.in, size})
				got, err := drain(t, g, func(cmd redcon.Command) {
					g.authenticated = g.authenticated || string(cmd.Args[0]) == "AUTH" && string(cmd.Args[1]) == "yes"
				})
				compareCommands(t, got, tt.want)
				if got := protocolText(t, err); got != tt.err {
					t.Errorf("got error %q, want %q", got, tt.err)
				}
			})
		}
	}
}

// pauses is a source that times out between its pieces.
type pauses struct {
	pieces []string
	paused bool
}

func (p *pauses) Read(b []byte) (int, error) {
	if p.paused = !p.paused; p.paused {
		return 0, os.ErrDeadlineExceeded
	}
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	p.pieces = p.pieces[1:]
	return n, nil
}

func TestGuardGoesOnAfterATimeout(t *testing.T) {
	g := newGuard(&pauses{pieces: []string{"*2\r\n$4\r\nEC", "HO\r\n$1\r\n", "x\r\n"}})
	p := make([]byte, 4096)
	for timeouts := 0; ; timeouts++ {
		n, err := g.Read(p)
		if err == nil {
			if got, want := string(g.resolve(redcon.Command{}).Raw), encoded("ECHO", "x"); n != len(token) || got != want || timeouts != 3 {
				t.Errorf("got %q after %d timeouts, want %q after 3", got, timeouts, want)
			}
			return
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

func TestGuardMisuse(t *testing.T) {
	g := newGuard(strings.NewReader("PING\nPING\n"))
	if n, err := g.Read(make([]byte, len(token)-1)); n != 0 || err != io.ErrShortBuffer {
		t.Errorf("with no room for a token: got %d, %v, want 0, %v", n, err, io.ErrShortBuffer)
	}
	if n, err := g.Read(make([]byte, 2*len(token)-1)); n != len(token) || err != nil {
		t.Errorf("with room for one token: got %d, %v, want %d", n, err, len(token))
	}
	if n, err := g.Read(make([]byte, 4096)); n != 0 || err != errUnresolved {
		t.Errorf("before resolve: got %d, %v, want 0, %v", n, err, errUnresolved)
	}
	g.resolve(redcon.Command{})
	if n, err := g.Read(make([]byte, 4096)); n != len(token) || err != nil {
		t.Errorf("after resolve: got %d, %v, want %d", n, err, len(token))
	}
}
