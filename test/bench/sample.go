package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sample is what one measurement gave, or the medians of several. What is not
// known is not a number.
type sample struct {
	rate           float64 // requests per second
	p50, p99, p999 float64 // milliseconds
	// Processor time in microseconds per request.
	proxyMicros, redisMicros float64
}

// stuck is how much longer than it should redis-benchmark may take.
const stuck = 2 * time.Minute

// measure puts a load on a candidate for so many requests.
func measure(ctx context.Context, c candidate, l load, clients, pipeline, requests int) (sample, error) {
	words, err := c.words(l)
	if err != nil {
		return sample{}, err
	}
	proxyBefore, proxyKnown := c.proxy.cpu()
	redisBefore, redisKnown := c.redis.cpu()
	out, err := redisBenchmark(ctx, c, l.keys, clients, pipeline, requests, words)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", c.name, err)
	}
	s, err := parseBenchmark(out)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", c.name, err)
	}
	s.proxyMicros, s.redisMicros = math.NaN(), math.NaN()
	if proxyKnown {
		after, _ := c.proxy.cpu()
		s.proxyMicros = float64((after - proxyBefore).Microseconds()) / float64(requests)
	}
	if redisKnown {
		after, _ := c.redis.cpu()
		s.redisMicros = float64((after - redisBefore).Microseconds()) / float64(requests)
	}
	return s, nil
}

func redisBenchmark(ctx context.Context, c candidate, keys, clients, pipeline, requests int, words []string) (string, error) {
	host, port, err := net.SplitHostPort(c.addr)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	cmd := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port,
		"-c", strconv.Itoa(clients), "-P", strconv.Itoa(pipeline), "-n", strconv.Itoa(requests),
		"-r", strconv.Itoa(keys), "--precision", "3")
	cmd.Args = append(cmd.Args, words...)
	var out, warnings bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &warnings
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("redis-benchmark: %w\n%s%s", err, lastLine(out.String()), warnings.String())
	}
	return out.String(), nil
}

// lastLine is the end of what redis-benchmark has said, where errors are. It
// draws its progress over and over on one line.
func lastLine(out string) string {
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\r' || r == '\n' })
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1] + "\n"
}

var (
	throughputLine = regexp.MustCompile(`throughput summary: ([0-9.]+) requests per second`)
	latencyNames   = regexp.MustCompile(`(?m)^ +avg +min +p50 +p95 +p99 +max *$`)
	percentileLine = regexp.MustCompile(`(?m)^([0-9.]+)% <= ([0-9.]+) milliseconds`)
)

var errOutput = errors.New("redis-benchmark's output is not as expected")

// parseBenchmark reads the report of redis-benchmark.
func parseBenchmark(out string) (s sample, err error) {
	match := throughputLine.FindStringSubmatch(out)
	names := latencyNames.FindStringIndex(out)
	if match == nil || names == nil {
		return s, fmt.Errorf("%w: no summary", errOutput)
	}
	var average, least, p95, most float64
	if _, err := fmt.Sscan(out[names[1]:], &average, &least, &s.p50, &p95, &s.p99, &most); err != nil {
		return s, fmt.Errorf("%w: latencies: %w", errOutput, err)
	}
	if s.rate, err = strconv.ParseFloat(match[1], 64); err != nil {
		return s, fmt.Errorf("%w: throughput: %w", errOutput, err)
	}
	s.p999 = percentile(out, 99.9)
	if math.IsNaN(s.p999) {
		return s, fmt.Errorf("%w: no percentiles", errOutput)
	}
	return s, nil
}

// percentile is the least latency in the report's tables, in milliseconds, that
// so many percent of the requests did not exceed.
func percentile(out string, percent float64) float64 {
	least := math.NaN()
	for _, match := range percentileLine.FindAllStringSubmatch(out, -1) {
		of, _ := strconv.ParseFloat(match[1], 64)
		latency, _ := strconv.ParseFloat(match[2], 64)
		if of >= percent && !(latency >= least) {
			least = latency
		}
	}
	return least
}
