package load

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"cellproxy/commands"
)

// tally counts answers, of all clients.
type tally struct {
	mu       sync.Mutex
	latency  *hdrhistogram.Histogram // in microseconds
	limited  int64
	requests int64
	errors   map[string]int64
}

// Latencies are kept from 1 µs to an hour, to three digits.
const (
	leastMicros, mostMicros = 1, int64(time.Hour / time.Microsecond)
	digits                  = 3
)

func (t *tally) add(answers []answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prepare()
	for _, a := range answers {
		t.latency.RecordValue(min(max(a.took.Microseconds(), leastMicros), mostMicros))
		t.requests++
		if a.limited {
			t.limited++
		}
		if a.err != "" {
			t.count(a.err, 1)
		}
	}
}

// lose counts requests that were sent and not answered.
func (t *tally) lose(requests int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prepare()
	if op := new(net.OpError); errors.As(err, &op) {
		err = op.Err // without the addresses, which are others for each client
	}
	t.count(fmt.Sprintf("no reply: %v", err), int64(requests))
}

func (t *tally) prepare() {
	if t.latency == nil {
		t.latency = hdrhistogram.New(leastMicros, mostMicros, digits)
		t.errors = make(map[string]int64)
	}
}

// kinds is how many different errors are told apart.
const kinds = 10

// number is what may have been a random one, in an error that quotes it.
var number = regexp.MustCompile(`\b\d{12}\b`)

func (t *tally) count(text string, n int64) {
	text = number.ReplaceAllString(text, Random)
	if _, known := t.errors[text]; !known && len(t.errors) >= kinds {
		text = "other errors"
	}
	t.errors[text] += n
}

// Report is what came of a load.
type Report struct {
	Load
	// Requests is how many were answered, with an error or without.
	Requests int64
	// Limited is how many of them a limiter refused.
	Limited int64
	// Errors counts the requests that were answered with an error, or not at
	// all, by its text.
	Errors map[string]int64
	Took   time.Duration

	latency *hdrhistogram.Histogram
}

func (t *tally) report(l Load, took time.Duration) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prepare()
	return Report{Load: l, Requests: t.requests, Limited: t.limited, Errors: t.errors, Took: took, latency: t.latency}
}

// Failed returns how many requests were answered with an error, or not at all.
func (r Report) Failed() (n int64) {
	for _, count := range r.Errors {
		n += count
	}
	return n
}

// Rate is how many requests were answered per second.
func (r Report) Rate() float64 {
	return float64(r.Requests) / r.Took.Seconds()
}

// Percentile returns the latency that so many percent of the requests did not
// exceed: from sending their pipeline until their reply was there.
func (r Report) Percentile(percent float64) time.Duration {
	return time.Duration(r.latency.ValueAtQuantile(percent)) * time.Microsecond
}

// percentiles are those that a report tells.
var percentiles = []float64{50, 90, 99, 99.9, 100}

// String is the report for people to read.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", strings.Join(r.Command, " "))
	fmt.Fprintf(&b, "%d clients, pipelines of %d", r.Clients, r.Pipeline)
	if slices.ContainsFunc(r.Command, func(word string) bool { return strings.Contains(word, Random) }) {
		fmt.Fprintf(&b, ", %d keys", r.Keys)
	}
	fmt.Fprintf(&b, "\n\nrequests  %d in %v, %.0f per second\n", r.Requests, r.Took.Round(time.Millisecond), r.Rate())
	if r.Requests > r.Failed() && commands.Lookup([]byte(r.Command[0])) != nil {
		fmt.Fprintf(&b, "limited   %d, %.1f %%\n", r.Limited, 100*float64(r.Limited)/float64(r.Requests))
	}
	fmt.Fprintf(&b, "failed    %d\n", r.Failed())
	for _, text := range slices.SortedFunc(maps.Keys(r.Errors), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Errors[b], r.Errors[a]), strings.Compare(a, b))
	}) {
		fmt.Fprintf(&b, "          %d %s\n", r.Errors[text], text)
	}
	if r.Requests == 0 {
		return b.String()
	}
	b.WriteString("latency   ")
	for i, percent := range percentiles {
		if i > 0 {
			b.WriteString("  ")
		}
		name := fmt.Sprintf("p%v", percent)
		if percent == 100 {
			name = "most"
		}
		fmt.Fprintf(&b, "%s %.3f ms", name, float64(r.Percentile(percent).Microseconds())/1000)
	}
	b.WriteString("\n")
	return b.String()
}
