package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cellproxy/commands"
)

// throttle is a CL.THROTTLE as the upstream gets it, in one of the two forms.
func (e *exam) throttle(form func(words []string) ([]string, error)) ([]any, error) {
	words, err := form([]string{"CL.THROTTLE", e.key, "1000000", "1000000", "1"})
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	return args, err
}

// limiter makes the call that cellproxy is for, with the text of the script,
// which leaves it loaded.
func (e *exam) limiter(ctx context.Context) Finding {
	args, err := e.throttle(commands.AsEval)
	if err != nil {
		return Finding{Level: Failure, Text: err.Error()}
	}
	reply, err := e.client.Do(ctx, args...).Int64Slice()
	if err != nil {
		fix := hint(err)
		if fix == "" {
			fix = "see permissions"
		}
		return Finding{Level: Failure, Text: "CL.THROTTLE answers " + oneLine(err), Fix: fix}
	}
	e.client.Del(ctx, e.key)
	if len(reply) != 5 || reply[0] != 0 {
		return Finding{Level: Failure, Text: fmt.Sprintf("CL.THROTTLE answers %v to the first request", reply), Fix: "find out who else uses the key: MONITOR"}
	}
	return Finding{Text: "CL.THROTTLE admits a request"}
}

// farAway is the median round trip from which cellproxy is held to stand too far
// from the upstream: every limiter call waits so long.
const farAway = 5 * time.Millisecond

// latency measures round trips.
func (e *exam) latency(ctx context.Context) Finding {
	throttle, err := e.throttle(commands.AsEvalSHA)
	if err != nil {
		return Finding{Level: Failure, Text: err.Error()}
	}
	pings, err := e.roundTrips(ctx, "PING")
	if err != nil {
		return unknown("how fast it is: " + oneLine(err))
	}
	calls, err := e.roundTrips(ctx, throttle...)
	e.client.Del(ctx, e.key)
	if err != nil {
		return Finding{Level: Unknown, Text: fmt.Sprintf("PING p50 %v p99 %v, and no limiter call: %s", median(pings), p99(pings), oneLine(err))}
	}
	return judgeLatency(pings, calls, e.Timeout)
}

// roundTrips returns how long each of the samples took, in order of that.
func (e *exam) roundTrips(ctx context.Context, args ...any) ([]time.Duration, error) {
	took := make([]time.Duration, 0, e.Samples)
	for range e.Samples {
		began := time.Now()
		if err := e.client.Do(ctx, args...).Err(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, nil
}

func median(sorted []time.Duration) time.Duration { return rounded(sorted[len(sorted)/2]) }

func p99(sorted []time.Duration) time.Duration { return rounded(sorted[len(sorted)*99/100]) }

func judgeLatency(pings, calls []time.Duration, timeout time.Duration) Finding {
	f := Finding{Text: fmt.Sprintf("PING p50 %v p99 %v, CL.THROTTLE p50 %v p99 %v", median(pings), p99(pings), median(calls), p99(calls))}
	slowest := max(pings[len(pings)-1], calls[len(calls)-1])
	switch {
	case slowest > timeout/2:
		f.Level = Warning
		f.Text += fmt.Sprintf(", the slowest %v: after %v serve holds the upstream to be dead", rounded(slowest), timeout)
		f.Fix = "find out what keeps the upstream (SLOWLOG GET, LATENCY DOCTOR), or raise --upstream-timeout"
	case pings[len(pings)/2] > farAway:
		f.Level = Warning
		f.Fix = "run cellproxy nearer to the upstream: every limiter call waits that long"
	}
	return f
}

// skewed is how far the upstream's clock may be from this machine's.
const skewed = time.Second

// clock compares the upstream's with the local one.
func (e *exam) clock(ctx context.Context) Finding {
	began := time.Now()
	there, err := e.client.Time(ctx).Result()
	if err != nil {
		return unknown("the time: " + oneLine(err))
	}
	return judgeClock(there, began, time.Since(began))
}

// judgeClock knows that the upstream's clock was read at some moment of the
// round trip.
func judgeClock(there, began time.Time, roundTrip time.Duration) Finding {
	ahead := there.Sub(began.Add(roundTrip / 2))
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	f := Finding{Text: fmt.Sprintf("%v %s this machine's, give or take %v", rounded(ahead.Abs()), direction, rounded(roundTrip/2))}
	if ahead.Abs()-roundTrip/2 > skewed {
		f.Level = Warning
		f.Text += ": limits are kept by the upstream's, windows of FW.ACQUIRE with ALIGN begin by it"
		f.Fix = "set both by NTP"
	}
	return f
}
