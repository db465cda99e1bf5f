package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"cellproxy/backend/poll"
)

// dataLoads are commands that are forwarded.
var dataLoads = []struct {
	name, command string
	lines         int // of the reply
}{
	{"GET", encoded("GET", "key:000000012345"), 2},
	{"SET", encoded("SET", "key:000000012345", "value"), 1},
	{"THROTTLE", encoded("CL.THROTTLE", "user123", "1000000", "1000000", "1000"), 6},
}

// newExchange starts a server before a Redis and connects a client. The function
// sends a pipeline of commands and takes the replies; it allocates nothing.
func newExchange(t testing.TB, command string, lines, pipeline int) (exchange func()) {
	t.Helper()
	server := startServer(t, nil)
	dialServer(t, server).do("SET key:000000012345 value") // connects upstream, too
	client := dialServer(t, server)
	commands := []byte(strings.Repeat(command, pipeline))
	replies := make([]byte, 64<<10)
	return func() {
		if _, err := client.Write(commands); err != nil {
			t.Fatal(err)
		}
		for missing := lines * pipeline; missing > 0; {
			n, err := client.Read(replies)
			if err != nil {
				t.Fatal(err)
			}
			missing -= bytes.Count(replies[:n], []byte("\n"))
		}
	}
}

// TestForwardingDoesNotAllocate wants no allocation in the proxy that comes with
// each command, once its buffers are there. The race detector has a few for each
// read, and without loops redcon has some for each command.
func TestForwardingDoesNotAllocate(t *testing.T) {
	const pipeline = 32
	most := pipeline / 4
	if loops, err := poll.Start(); err != nil {
		most = 4 * pipeline
	} else {
		loops.Close()
	}
	for _, load := range dataLoads {
		t.Run(load.name, func(t *testing.T) {
			exchange := newExchange(t, load.command, load.lines, pipeline)
			for range 200 {
				exchange()
			}
			if got := testing.AllocsPerRun(200, exchange); got > float64(most) {
				t.Errorf("got %v allocations for %d commands, want no more than %d", got, pipeline, most)
			}
		})
	}
}

// BenchmarkForward sends commands through a server to a Redis and takes the
// replies; a figure is for one command. The allocations are those of the proxy.
func BenchmarkForward(b *testing.B) {
	for _, load := range dataLoads {
		for _, pipeline := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/pipeline=%d", load.name, pipeline), func(b *testing.B) {
				exchange := newExchange(b, load.command, load.lines, pipeline)
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += pipeline {
					exchange()
				}
			})
		}
	}
}

// BenchmarkOutput hands replies to a client's output and writes them; a figure
// is for one reply.
func BenchmarkOutput(b *testing.B) {
	reply := []byte("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
	for _, gathered := range []int{1, 64} {
		b.Run(fmt.Sprintf("gathered=%d", gathered), func(b *testing.B) {
			var o output
			o.init(drained(b), 1<<30, time.Minute)
			b.SetBytes(int64(len(reply)))
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += gathered {
				if _, _, err := o.expect(gathered, true, true); err != nil {
					b.Fatal(err)
				}
				for range gathered {
					o.Reply(reply, true)
				}
				o.Flush()
			}
		})
	}
}

// drained is a connection whose other end reads all that comes.
func drained(b *testing.B) net.Conn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	other, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		io.Copy(io.Discard, other)
		other.Close()
	}()
	return conn
}

// BenchmarkRoute finds out what becomes of a command.
func BenchmarkRoute(b *testing.B) {
	r := newRoutes(DefaultRefuse, false)
	for _, name := range []string{"GET", "cl.throttle"} {
		b.Run(name, func(b *testing.B) {
			word := []byte(name)
			b.ReportAllocs()
			for b.Loop() {
				r.find(word)
			}
		})
	}
}
