package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// bench is a plan being carried out.
type bench struct {
	plan
	candidates    []candidate
	out, progress io.Writer
	failed        error // what could not be measured
}

// run measures everything. What fails leaves a gap in a table, and is returned
// at the end.
func (b *bench) run(ctx context.Context) error {
	fmt.Fprintf(b.out, "%d processors, %s/%s, %s, %s. %d rounds of %v, medians.\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		redisVersion(), time.Now().UTC().Format(time.DateOnly), b.rounds, b.duration)
	for _, l := range b.loads {
		fmt.Fprintf(b.out, "\n### %s\n\n%s\n\n", l.name, l.about)
		if err := b.table(ctx, l); err != nil {
			return err
		}
	}
	if b.connections > 0 {
		fmt.Fprintf(b.out, "\n### %s connections\n\n", thousands(float64(b.connections)))
		if err := b.manyConnections(ctx); err != nil {
			return err
		}
	}
	return b.failed
}

// redisVersion is the version of redis-server, as it tells it: v=7.0.15.
func redisVersion() string {
	out, _ := exec.Command("redis-server", "--version").Output()
	for _, word := range strings.Fields(string(out)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return "Redis " + version
		}
	}
	return "an unknown Redis"
}

// table measures one load with all numbers of clients and pipelines.
func (b *bench) table(ctx context.Context, l load) error {
	fmt.Fprint(b.out, heading(b.reference))
	return b.with(ctx, l, func(taking []candidate) error {
		for _, clients := range b.clients {
			for _, pipeline := range b.pipelines {
				medians, err := b.measure(ctx, taking, l, clients, pipeline)
				if err != nil {
					return err
				}
				for i, c := range taking {
					fmt.Fprint(b.out, row(clients, pipeline, c.name, medians[i], b.referenceOf(taking, medians)))
				}
			}
		}
		return nil
	})
}

// with prepares for a load those candidates that take it, and cleans up behind.
// One that can't be prepared is left out.
func (b *bench) with(ctx context.Context, l load, measure func(taking []candidate) error) error {
	var taking []candidate
	for _, c := range b.candidates {
		if !c.takes(l) {
			continue
		}
		if err := c.prepare(ctx, l); err != nil {
			b.fail(err)
			continue
		}
		taking = append(taking, c)
	}
	err := measure(taking)
	for _, c := range taking {
		// When the bench is interrupted, too.
		if err := c.cleanUp(context.WithoutCancel(ctx), l); err != nil {
			b.fail(err)
		}
	}
	return err
}

// measure returns the medians of the candidates in turn: each round measures
// all, beginning with another one, so that what else the machine does, and what
// one leaves to the next, falls on all alike.
func (b *bench) measure(ctx context.Context, taking []candidate, l load, clients, pipeline int) ([]sample, error) {
	samples := make([][]sample, len(taking))
	requests := make([]int, len(taking))
	for i, c := range taking {
		warm, err := measure(ctx, c, l, clients, pipeline, warmUp(clients, pipeline))
		if err != nil {
			b.fail(err)
			continue
		}
		requests[i] = max(int(warm.rate*b.duration.Seconds()), warmUp(clients, pipeline), perClient*clients)
	}
	for round := range b.rounds {
		for turn := range taking {
			i := (round + turn) % len(taking)
			if requests[i] == 0 {
				continue
			}
			s, err := measure(ctx, taking[i], l, clients, pipeline, requests[i])
			if err != nil {
				b.fail(err)
				continue
			}
			samples[i] = append(samples[i], s)
			fmt.Fprintf(b.progress, "%s c=%d P=%d round %d %s: %.0f/s\n", l.name, clients, pipeline, round+1, taking[i].name, s.rate)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	medians := make([]sample, len(taking))
	for i := range taking {
		medians[i] = medianOf(samples[i])
	}
	return medians, nil
}

// perClient is how many requests each client sends at least: enough for the
// processor time of connecting, which is counted, to be little of each.
const perClient = 20

// warmUp is how many requests are sent before the first round. How long they
// take tells how many a round needs.
func warmUp(clients, pipeline int) int {
	return max(2000, 2*clients*pipeline)
}

// referenceOf returns the sample that ratios are to.
func (b *bench) referenceOf(taking []candidate, medians []sample) sample {
	for i, c := range taking {
		if c.name == b.reference {
			return medians[i]
		}
	}
	return sample{rate: math.NaN()}
}

func (b *bench) fail(err error) {
	fmt.Fprintln(b.progress, err)
	b.failed = errors.Join(b.failed, err)
}
