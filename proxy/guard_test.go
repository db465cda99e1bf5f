package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tidwall/redcon"
)

// guarded returns what redcon and the guard make of a stream: the commands,
// as they would go upstream, and the error after them.
func guarded(t testing.TB, src io.Reader, authenticated bool) (commands []string, err error) {
	t.Helper()
	g := newGuard(src)
	g.authenticated = authenticated
	r := redcon.NewReader(g)
	for {
		batch, err := r.ReadCommands()
		if err != nil {
			return commands, err
		}
		for _, cmd := range batch {
			commands = append(commands, string(g.resolve(cmd).Raw))
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

var streams = []struct {
	name     string
	in       string
	stranger bool
	want     []string
	err      string // "" is the end of the stream
}{
	{name: "nothing"},
	{name: "one", in: encoded("PING"), want: []string{encoded("PING")}},
	{name: "two", in: encoded("GET", "a") + encoded("SET", "a", "b\r\nc"), want: []string{encoded("GET", "a"), encoded("SET", "a", "b\r\nc")}},
	{name: "empty argument", in: encoded("SET", "", ""), want: []string{encoded("SET", "", "")}},
	{name: "blank", in: "\r\n\n*0\r\n*-1\r\n*-10\r\n" + encoded("PING"), want: []string{encoded("PING")}},
	{name: "inline", in: "SET  a\t'b c'\r\nping\n", want: []string{encoded("SET", "a", "b c"), encoded("ping")}},
	{name: "inline quotes", in: `SET "a\x41\n\"" 'it\'s'` + "\r\n", want: []string{encoded("SET", "aA\n\"", "it's")}},
	{name: "inline empty quotes", in: "SET a \"\"\n", want: []string{encoded("SET", "a", "")}},
	{name: "unbalanced", in: encoded("PING") + "SET a \"b\r\n", want: []string{encoded("PING")}, err: "unbalanced quotes in request"},
	{name: "closed within a word", in: "SET \"a\"b\r\n", err: "unbalanced quotes in request"},
	{name: "other terminators", in: "*1\rx$4\ryPING\rz", want: []string{encoded("PING")}},
	{name: "large", in: encoded("SET", "k", strings.Repeat("v", 300_000)) + encoded("PING"), want: []string{encoded("SET", "k", strings.Repeat("v", 300_000)), encoded("PING")}},
	{name: "huge bulk", in: encoded("PING") + "*1\r\n$9223372036854775807\r\n", want: []string{encoded("PING")}, err: "invalid bulk length"},
	{name: "huge count", in: "*9223372036854775807\r\n", err: "invalid multibulk length"},
	{name: "too many arguments", in: "*1048577\r\n", err: "invalid multibulk length"},
	{name: "count not a number", in: "*abc\r\n", err: "invalid multibulk length"},
	{name: "count with zeros", in: "*03\r\n", err: "invalid multibulk length"},
	{name: "count with a plus", in: "*+1\r\n", err: "invalid multibulk length"},
	{name: "no count", in: "*\r\n", err: "invalid multibulk length"},
	{name: "bulk too large", in: "*1\r\n$536870913\r\n", err: "invalid bulk length"},
	{name: "bulk negative", in: "*1\r\n$-1\r\n", err: "invalid bulk length"},
	{name: "no dollar", in: "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n", err: "expected '$', got 'f'"},
	{name: "empty bulk line", in: "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n\r\n", err: "expected '$', got ' '"},
	{name: "endless count", in: "*" + strings.Repeat("1", maxLine+1), err: "too big mbulk count string"},
	{name: "endless bulk length", in: "*1\r\n$" + strings.Repeat("1", maxLine+1), err: "too big bulk count string"},
	{name: "endless line", in: strings.Repeat("a", maxLine+1), err: "too big inline request"},
	{name: "strangers arguments", stranger: true, in: "*11\r\n", err: "unauthenticated multibulk length"},
	{name: "strangers bulk", stranger: true, in: "*1\r\n$16385\r\n", err: "unauthenticated bulk length"},
	{name: "strangers fine", stranger: true, in: encoded("AUTH", strings.Repeat("p", 16384)), want: []string{encoded("AUTH", strings.Repeat("p", 16384))}},
}

func TestGuard(t *testing.T) {
	for _, tt := range streams {
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
				if fmt.Sprintf("%.80q", got) != fmt.Sprintf("%.80q", tt.want) || strings.Join(got, "") != strings.Join(tt.want, "") {
					t.Errorf("got %.80q, want %.80q", got, tt.want)
				}
				var broken *protocolError
				if tt.err == "" && err != io.EOF || tt.err != "" && (!errors.As(err, &broken) || broken.text != tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
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

// TestGuardKeepsLittle checks that a client's declared sizes cost nothing and
// that a large command's memory goes with it.
func TestGuardKeepsLittle(t *testing.T) {
	g := newGuard(strings.NewReader("*1048576\r\n$536870912\r\nab"))
	g.authenticated = true
	if _, err := g.Read(make([]byte, 4096)); err != io.EOF {
		t.Fatal(err)
	}
	if len(g.buf) > minInput || cap(g.marks) > 16 {
		t.Errorf("an announced command takes %d bytes and %d marks", len(g.buf), cap(g.marks))
	}
	large := encoded("SET", "k", strings.Repeat("v", 1<<20))
	g = newGuard(strings.NewReader(large))
	g.authenticated = true
	if _, err := g.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	if len(g.buf) > minInput {
		t.Errorf("after a large command the guard keeps %d bytes", len(g.buf))
	}
}

// FuzzGuard checks that however a stream is cut, the same commands come out,
// and that each is RESP which says the same again.
func FuzzGuard(f *testing.F) {
	for _, tt := range streams {
		if len(tt.in) < 4096 {
			f.Add([]byte(tt.in))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		want, wantErr := guarded(t, bytes.NewReader(in), true)
		got, err := guarded(t, iotest.OneByteReader(bytes.NewReader(in)), true)
		if strings.Join(got, "|") != strings.Join(want, "|") || err.Error() != wantErr.Error() {
			t.Fatalf("byte by byte: %q, %v; at once: %q, %v", got, err, want, wantErr)
		}
		again, err := guarded(t, strings.NewReader(strings.Join(want, "")), true)
		if strings.Join(again, "|") != strings.Join(want, "|") || err != io.EOF {
			t.Fatalf("passed on: %q, %v; want %q", again, err, want)
		}
	})
}

func BenchmarkGuard(b *testing.B) {
	const commands = 64
	batch := strings.Repeat(encoded("SET", "key:000000012345", "value"), commands)
	src := &repeated{text: batch}
	g := newGuard(src)
	p := make([]byte, 4096)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		for n := 0; n < commands; {
			tokens, err := g.Read(p)
			if err != nil {
				b.Fatal(err)
			}
			for range tokens / len(token) {
				g.resolve(redcon.Command{})
				n++
			}
		}
	}
}

// repeated is a source that never ends.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}
