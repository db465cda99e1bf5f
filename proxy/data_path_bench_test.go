package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// BenchmarkForward sends commands through a server to a Redis and takes the
// replies; a figure is for one command. The allocations are all those of the
// proxy: the client has none.
func BenchmarkForward(b *testing.B) {
	for _, load := range []struct {
		name, command string
		lines         int // of the reply
	}{
		{"GET", encoded("GET", "key:000000012345"), 2},
		{"SET", encoded("SET", "key:000000012345", "value"), 1},
		{"THROTTLE", encoded("CL.THROTTLE", "user123", "1000000", "1000000", "1000"), 6},
	} {
		for _, pipeline := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/pipeline=%d", load.name, pipeline), func(b *testing.B) {
				server := startServer(b, nil)
				dialServer(b, server).do("SET key:000000012345 value") // connects upstream, too
				client := dialServer(b, server)
				commands := []byte(strings.Repeat(load.command, pipeline))
				replies := make([]byte, 64<<10)
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += pipeline {
					if _, err := client.Write(commands); err != nil {
						b.Fatal(err)
					}
					for lines := load.lines * pipeline; lines > 0; {
						n, err := client.Read(replies)
						if err != nil {
							b.Fatal(err)
						}
						lines -= bytes.Count(replies[:n], []byte("\n"))
					}
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
				if _, err := o.expect(gathered, true, true); err != nil {
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
	r := newRoutes(DefaultRefuse)
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
