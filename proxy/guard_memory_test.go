package proxy

import (
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/tidwall/redcon"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// readOne reads a command and checks that it is alone.
func readOne(t testing.TB, g *guard) redcon.Command {
	t.Helper()
	n, err := g.Read(make([]byte, 4096))
	if n != len(token) || err != nil {
		t.Fatalf("got %d, %v, want one command", n, err)
	}
	return g.resolve(redcon.Command{})
}

// TestGuardIsLinear checks that what arrives in small pieces is not moved over
// and over: moving takes memory to move to. Were it scanned or moved in place
// over and over, this would take hours.
func TestGuardIsLinear(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		piece  int
		factor float64 // bytes allocated for each sent, at most
	}{
		{"one large argument byte by byte", []string{"SET", "k", strings.Repeat("v", 4<<20), "EX", "60"}, 1, 2.2},
		{"one large argument", []string{"SET", "k", strings.Repeat("v", 16<<20)}, 4096, 2.2},
		{"large arguments", slices.Repeat([]string{strings.Repeat("v", 3<<20)}, 8), 4096, 5},
		{"many arguments", slices.Repeat([]string{"v"}, maxArgs), 512, 8},
		{"empty arguments", slices.Repeat([]string{""}, 100_000), 1, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := encoded(tt.args...)
			g := newGuard(&pieces{in, tt.piece})
			g.authenticated = true
			var cmd redcon.Command
			spent := allocated(func() { cmd = readOne(t, g) })
			if string(cmd.Raw) != in || len(cmd.Args) != len(tt.args) {
				t.Errorf("got another command of %d bytes, want %d", len(cmd.Raw), len(in))
			}
			if float64(spent) > tt.factor*float64(len(in)) {
				t.Errorf("%d bytes took %d bytes of memory", len(in), spent)
			}
		})
	}
}

// TestGuardLineIsLinear checks that a line is not searched anew for its end
// with every byte of it.
func TestGuardLineIsLinear(t *testing.T) {
	for _, in := range []string{strings.Repeat("a", maxLine), "*" + strings.Repeat("1", maxLine-1)} {
		g := newGuard(&pieces{in, 1})
		if _, err := g.Read(make([]byte, 4096)); err != io.EOF {
			t.Fatal(err)
		}
		if g.seen != len(in) {
			t.Errorf("%d bytes of %d have been searched for good", g.seen, len(in))
		}
	}
}

// TestGuardBelievesNoPromise checks that what a client says will come takes no
// memory before it does.
func TestGuardBelievesNoPromise(t *testing.T) {
	g := newGuard(strings.NewReader("*1048576\r\n$536870912\r\nab"))
	g.authenticated = true
	spent := allocated(func() {
		if _, err := g.Read(make([]byte, 4096)); err != io.EOF {
			t.Error(err)
		}
	})
	if spent > 64<<10 {
		t.Errorf("a promise took %d bytes", spent)
	}
}

// TestGuardLimitsCommands checks the limit of a command's size, to the byte.
func TestGuardLimitsCommands(t *testing.T) {
	const most = 1 << 20
	largest := encoded("SET", "k", strings.Repeat("v", most-30))
	if got, want := len(largest), most+len("\r\n"); got != want {
		t.Fatalf("the largest command has %d bytes, want %d", got, want)
	}
	for name, in := range map[string]string{
		"one argument":   encoded("SET", "k", strings.Repeat("v", most-29)),
		"many arguments": encoded(slices.Repeat([]string{strings.Repeat("v", 100)}, most/100)...),
		"announced":      "*2\r\n$4\r\nECHO\r\n$1048576\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(strings.NewReader(encoded("PING") + largest + largest + in))
			g.authenticated, g.most = true, most
			got, err := drain(t, g, nil)
			compareCommands(t, got, []string{encoded("PING"), largest, largest})
			if err != errTooLarge {
				t.Errorf("got error %v, want %v", err, errTooLarge)
			}
		})
	}
}

// waiting is a source that has no more than the text at first; later reads time
// out.
type waiting struct{ src io.Reader }

func (w waiting) Read(p []byte) (int, error) {
	n, err := w.src.Read(p)
	if err == io.EOF {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// TestGuardKeepsNothingWhileIdle checks that neither buffers nor commands are
// kept for a client that sends nothing, whatever it has sent before.
func TestGuardKeepsNothingWhileIdle(t *testing.T) {
	for name, in := range map[string]string{
		"small":          encoded("PING"),
		"large":          encoded("SET", "k", strings.Repeat("v", 1<<20)),
		"many arguments": encoded(slices.Repeat([]string{"a"}, 100_000)...),
		"inexact":        "*1\r\n$100000\r\n" + strings.Repeat("v", 100_000) + "xx",
		"inline":         "SET k " + strings.Repeat("v", 60_000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(waiting{strings.NewReader(in)})
			g.authenticated = true
			raw := weak.Make(&readOne(t, g).Raw[0])
			if _, err := g.Read(make([]byte, 4096)); err != os.ErrDeadlineExceeded {
				t.Fatal(err)
			}
			if g.input != nil {
				t.Errorf("a buffer of %d bytes is kept", len(g.buf))
			}
			for range inputs {
				runtime.GC() // what is pooled survives one
			}
			if raw.Value() != nil {
				t.Error("the command is kept")
			}
			runtime.KeepAlive(g)
		})
	}
}

// TestGuardPoolsNoCommands checks that what is kept to be used again does not
// keep what was in it.
func TestGuardPoolsNoCommands(t *testing.T) {
	in := &input{buf: make([]byte, minInput)}
	in.argv = append(in.argv, make([]byte, 10))
	in.ready = append(in.ready, redcon.Command{Raw: make([]byte, 10), Args: in.argv})
	in.forget()
	if in.argv[:1][0] != nil || in.ready[:1][0].Raw != nil || in.ready[:1][0].Args != nil {
		t.Errorf("kept %v, %v", in.argv[:1], in.ready[:1])
	}
	in.ready, in.argv = make([]redcon.Command, 0, keptReady+1), make([][]byte, 0, keptArgs+1)
	in.forget()
	if in.ready != nil || in.argv != nil {
		t.Errorf("kept room for %d commands and %d arguments", cap(in.ready), cap(in.argv))
	}
}

// TestGuardShrinks checks that a client that has sent much at once, and goes
// on to send little, holds little.
func TestGuardShrinks(t *testing.T) {
	burst := strings.Repeat(encoded("PING"), 2*keptInput/len(encoded("PING")))
	src := &pieces{burst + "*1\r\n$4\r\nPI", keptInput}
	g := newGuard(waiting{src})
	largest := 0
	_, err := drain(t, g, func(redcon.Command) { largest = max(largest, len(g.buf)) })
	if err != os.ErrDeadlineExceeded {
		t.Fatal(err)
	}
	if largest != keptInput {
		t.Errorf("at most a buffer of %d bytes, want %d", largest, keptInput)
	}
	src.text = "N"
	if _, err := g.Read(make([]byte, 4096)); err != os.ErrDeadlineExceeded {
		t.Fatal(err)
	}
	if len(g.buf) != minInput {
		t.Errorf("a buffer of %d bytes is kept for %d", len(g.buf), g.w-g.r)
	}
	src.text = "G\r\n"
	if got, want := string(readOne(t, g).Raw), encoded("PING"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGuardLargeCommandsStay checks that large commands remain as they are when
// more is read, so that they need not be copied.
func TestGuardLargeCommandsStay(t *testing.T) {
	for _, extra := range []int{0, 10, 3 * ownedCommand} {
		first := encoded("SET", "k", strings.Repeat("a", ownedCommand))
		second := encoded("SET", "k", strings.Repeat("b", extra+10))
		g := newGuard(strings.NewReader(first + second + strings.Repeat(second, 3)))
		g.authenticated = true
		r := redcon.NewReader(g)
		var commands []redcon.Command
		for {
			cmd, err := r.ReadCommand()
			if err != nil {
				break
			}
			commands = append(commands, g.resolve(cmd))
		}
		if len(commands) != 5 || string(commands[0].Raw) != first || string(commands[0].Args[0]) != "SET" {
			t.Errorf("followed by %d bytes: got %d commands, the first %.40q", len(second), len(commands), commands[0].Raw)
		}
	}
}
