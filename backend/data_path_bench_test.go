package backend

import (
	"strings"
	"testing"

	"cellproxy/backend/cluster"
	"cellproxy/commands"
)

// gathered is how many commands or replies the benchmarks have at once.
const gathered = 64

// BenchmarkFramer finds the ends of replies in a full buffer; a figure is for
// one reply.
func BenchmarkFramer(b *testing.B) {
	for name, reply := range map[string]string{
		"OK":      "+OK\r\n",
		"bulk":    "$5\r\nvalue\r\n",
		"bulk1K":  "$1000\r\n" + strings.Repeat("v", 1000) + "\r\n",
		"limiter": "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			buffer := []byte(strings.Repeat(reply, gathered))
			b.SetBytes(int64(len(reply)))
			b.ReportAllocs()
			var f framer
			for done := 0; done < b.N; {
				for rest := buffer; len(rest) > 0; done++ {
					n, whole, err := f.next(rest)
					if err != nil || !whole {
						b.Fatalf("%q is not a whole reply: %v", rest, err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}

// BenchmarkSendQueue queues commands and takes them for writing; a figure is
// for one command.
func BenchmarkSendQueue(b *testing.B) {
	get := cluster.AppendCommand(nil, "GET", "key:000000012345")
	limiter := commands.Lookup([]byte("CL.THROTTLE"))
	var call commands.Call
	if err := limiter.Parse([][]byte{[]byte("CL.THROTTLE"), []byte("user123"), []byte("15"), []byte("30"), []byte("60")}, &call); err != nil {
		b.Fatal(err)
	}
	_, run := call.AppendRun(nil)
	for name, add := range map[string]func(*sendQueue){
		"GET":      func(q *sendQueue) { q.add(get) },
		"THROTTLE": func(q *sendQueue) { q.addRun(run) },
	} {
		b.Run(name, func(b *testing.B) {
			var q sendQueue
			b.ReportAllocs()
			for done := 0; done < b.N; done += gathered {
				for range gathered {
					add(&q)
				}
				q.take()
				for len(q.closed) > 0 {
					q.nextBatch()
				}
			}
		})
	}
}
