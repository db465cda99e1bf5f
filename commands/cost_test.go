package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// BenchmarkCostInRedis measures the processor time that redis-server takes for
// a command, and its ratio to CL.THROTTLE's in the same run: the two take turns.
func BenchmarkCostInRedis(b *testing.B) {
	for _, load := range []struct{ name, words string }{
		{"CL.THROTTLE again", "CL.THROTTLE 1000000 1000000 1000"},
		{"CL.THROTTLE refused", "CL.THROTTLE 0 1 1000000"},
		{"FW.ACQUIRE admitted", "FW.ACQUIRE 1000000 100"},
		{"FW.ACQUIRE refused", "FW.ACQUIRE 1 1000000"},
		{"FW.ACQUIRE aligned", "FW.ACQUIRE 1000000 100 1 ALIGN"},
		{"SW.ACQUIRE admitted, 10 slices", "SW.ACQUIRE 1000000 1000"},
		{"SW.ACQUIRE admitted, 10 slices, limit 10^12", "SW.ACQUIRE 1000000000000 1000"},
		{"SW.ACQUIRE admitted, 10 slices, one each ms", "SW.ACQUIRE 1000000 10"},
		{"SW.ACQUIRE refused", "SW.ACQUIRE 1 1000000"},
		{"SW.ACQUIRE admitted, exact, limit 10", "SW.ACQUIRE 10 1 EXACT"},
		{"SL.ACQUIRE refused", "SL.ACQUIRE 1 1 1000000 1 60000000"},
		{"TB.ACQUIRE admitted", "TB.ACQUIRE 1000000 1000 1000"},
		{"TB.ACQUIRE refused", "TB.ACQUIRE 1 1 1000000"},
		{"LB.ACQUIRE admitted", "LB.ACQUIRE 1000000 1000 1000"},
		{"LB.ACQUIRE refused", "LB.ACQUIRE 1 1 1000000"},
	} {
		b.Run(load.name, func(b *testing.B) { measureCost(b, load.words) })
	}
}

func measureCost(b *testing.B, words string) {
	const turn = 2000
	server := redistest.Start(b, redistest.Options{})
	conn := server.Dial(b)
	newStore(conn)
	state := "admitted"
	if strings.HasSuffix(b.Name(), "refused") {
		state = "refused"
	}
	reference := map[string]string{
		"admitted": "CL.THROTTLE 1000000 1000000 1000",
		"refused":  "CL.THROTTLE 0 1 1000000",
	}[state]
	var micros, referenceMicros float64
	for i := 0; b.Loop(); i++ {
		referenceMicros += processorMicros(b, conn, turns(b, "reference", reference, turn))
		micros += processorMicros(b, conn, turns(b, "k", words, turn))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros/float64(b.N*turn), "redis-µs/command")
	b.ReportMetric(micros/referenceMicros, "×CL.THROTTLE")
}

// BenchmarkCostOfAnExactWindow measures how the processor time for an admission
// grows with the number of those before it in the window.
func BenchmarkCostOfAnExactWindow(b *testing.B) {
	for _, entries := range []int{1, 10, 100, 1000, 10_000} {
		for name, command := range map[string]struct{ words, head string }{
			"SW.ACQUIRE": {"SW.ACQUIRE 1000000000000 1000000000000 EXACT", fmt.Sprintf("sw:%d %d 1 ", entries, someMicros/2+int64(entries))},
			"SL.ACQUIRE": {"SL.ACQUIRE 1 1000000000000 1000000000000", "sl:"},
		} {
			b.Run(fmt.Sprintf("%s of %d", name, entries), func(b *testing.B) {
				const turn = 200
				server := redistest.Start(b, redistest.Options{})
				conn := server.Dial(b)
				newStore(conn)
				state := []byte(command.head)
				for i := range entries {
					state = append(state, entry(someMicros/2+int64(i), 1)...)
				}
				var micros, referenceMicros float64
				for b.Loop() {
					for i := range 100 {
						conn.Do("SET", fmt.Sprintf("k%d", i), string(state))
					}
					referenceMicros += processorMicros(b, conn, turns(b, "reference", "CL.THROTTLE 1000000 1000000 1000", turn))
					micros += processorMicros(b, conn, turns(b, "k", command.words, turn))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(micros/float64(b.N*turn), "redis-µs/command")
				b.ReportMetric(micros/referenceMicros, "×CL.THROTTLE")
			})
		}
	}
}

// turns is a pipeline of a command on a hundred keys in turn.
func turns(b *testing.B, key, words string, count int) []byte {
	command := strings.Fields(words)
	var pipeline []byte
	for i := range count {
		args := slices.Concat(command[:1], []string{fmt.Sprintf("%s%d", key, i%100)}, command[1:])
		pipeline = parse(b, args...).AppendEvalSHA(pipeline)
	}
	return pipeline
}

// processorMicros is the processor time that the server takes for a pipeline.
func processorMicros(b *testing.B, conn *wire.Conn, pipeline []byte) float64 {
	b.Helper()
	replies := strings.Count(string(pipeline), "EVALSHA")
	before := usedMicros(b, conn)
	go conn.Write(pipeline)
	for range replies {
		if reply := conn.Reply(); reply[0] != '*' {
			b.Fatalf("reply %q", reply)
		}
	}
	return usedMicros(b, conn) - before
}

// usedMicros is the processor time that the server has taken so far.
func usedMicros(b *testing.B, conn *wire.Conn) (micros float64) {
	b.Helper()
	for _, line := range strings.Split(conn.Do("INFO", "cpu"), "\r\n") {
		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if text, ok := strings.CutPrefix(line, name); ok {
				var seconds float64
				if _, err := fmt.Sscan(text, &seconds); err != nil {
					b.Fatal(err)
				}
				micros += seconds * 1e6
			}
		}
	}
	return micros
}
