package proxy

import (
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

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

// benchmarks are pipelines of commands; a figure is for one command.
var benchmarks = []struct{ name, command string }{
	{"GET", encoded("GET", "key:000000012345")},
	{"SET", encoded("SET", "key:000000012345", "value")},
	{"THROTTLE", encoded("CL.THROTTLE", "user123", "15", "30", "60")},
	{"EVALSHA", encoded("EVALSHA", strings.Repeat("a", 40), "1", "user123", "15", "30", "60", "1")},
	{"SET1K", encoded("SET", "key:000000012345", strings.Repeat("v", 1000))},
	{"SET1M", encoded("SET", "key:000000012345", strings.Repeat("v", 1<<20))},
	{"inline", "GET key:000000012345\r\n"},
}

func benchmarkGuard(b *testing.B, run func(b *testing.B, g *guard)) {
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			g := newGuard(&repeated{text: strings.Repeat(bb.command, 64)})
			g.authenticated = true
			b.SetBytes(int64(len(bb.command)))
			b.ReportAllocs()
			run(b, g)
		})
	}
}

// BenchmarkGuard is the guard alone.
func BenchmarkGuard(b *testing.B) {
	benchmarkGuard(b, func(b *testing.B, g *guard) {
		p := make([]byte, 4096)
		for done := 0; done < b.N; {
			n, err := g.Read(p)
			if err != nil {
				b.Fatal(err)
			}
			for range n / len(token) {
				g.resolve(redcon.Command{})
				done++
			}
		}
	})
}

// BenchmarkGuardAndRedcon has redcon read from the guard, as it does in the
// server.
func BenchmarkGuardAndRedcon(b *testing.B) {
	benchmarkGuard(b, func(b *testing.B, g *guard) {
		r := redcon.NewReader(g)
		for done := 0; done < b.N; {
			commands, err := r.ReadCommands()
			if err != nil {
				b.Fatal(err)
			}
			for _, cmd := range commands {
				g.resolve(cmd)
				done++
			}
		}
	})
}
