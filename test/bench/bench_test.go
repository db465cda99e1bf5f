package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"cellproxy/test/redistest"
)

// TestRun measures a little of everything. A Redis is as good as another proxy,
// and one that is not there must not keep the figures of the others back.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	peer, gone := redistest.Start(t, redistest.Options{TCP: true}), redistest.Start(t, redistest.Options{TCP: true})
	gone.Kill()
	p := plan{
		clients: []int{2}, pipelines: []int{4}, rounds: 1, duration: 20 * time.Millisecond, connections: 20, reference: redisName,
		peers: []candidate{
			{name: "peer", addr: peer.Addr(), redisAddr: peer.Addr(), foreign: true},
			{name: "gone", addr: gone.Addr(), foreign: true},
		},
	}
	for _, l := range loads[1:3] { // one of limiters, one of others, each with keys to prepare
		l.keys = 200
		p.loads = append(p.loads, l)
	}
	var out, progress strings.Builder
	err := run(ctx, p, &out, &progress)
	if err == nil || !strings.Contains(err.Error(), "gone: ") || strings.Contains(err.Error(), "peer: ") {
		t.Errorf("got error %v, want one about the peer that is gone", err)
	}
	checkFigures(t, out.String())
	for _, l := range p.loads {
		if keys, err := peer.Client(t).Keys(ctx, strings.ReplaceAll(l.words[1], random, "*")).Result(); err != nil || len(keys) > 0 {
			t.Errorf("%s left %d keys, %v", l.name, len(keys), err)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// checkFigures looks for a line of each candidate in each table, without gaps
// where all can be known.
func checkFigures(t *testing.T, out string) {
	t.Helper()
	for begin, want := range map[string]int{
		"| 2 | 4 | Redis | ": 2, "| 2 | 4 | cellproxy | ": 2, "| 2 | 4 | cellproxy --deny-cache | ": 1, "| 2 | 4 | peer | ": 2,
		"| 256 | 1 | cellproxy | ": 1, "| 20 | 1 | cellproxy | ": 1, "| cellproxy | ": 1,
	} {
		if got := strings.Count(out, "\n"+begin); got != want {
			t.Errorf("got %d lines %s…, want %d", got, begin, want)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if hasProc() && strings.Contains(line, "| cellproxy |") && strings.Contains(line, "–") {
			t.Errorf("a figure is missing: %s", line)
		}
	}
}
