package main

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
)

// report is what redis-benchmark said to a pipe, progress included.
func report(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/redis-benchmark.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestParseBenchmark(t *testing.T) {
	got, err := parseBenchmark(report(t))
	if err != nil {
		t.Fatal(err)
	}
	want := sample{rate: 119047.62, p50: 0.143, p99: 2.511, p999: 3.903}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestPercentile wants what either table says: the first is finer where there
// are few requests, the second where there are many.
func TestPercentile(t *testing.T) {
	for _, tt := range []struct{ percent, want float64 }{
		{0, 0.055}, {50, 0.143}, {87.4, 0.207}, {99.9, 3.903}, {99.96, 5.103}, {100, 5.991},
	} {
		if got := percentile(report(t), tt.percent); got != tt.want {
			t.Errorf("%v%%: got %v ms, want %v", tt.percent, got, tt.want)
		}
	}
	if got := percentile("", 50); !math.IsNaN(got) {
		t.Errorf("of nothing: got %v ms, want no number", got)
	}
}

func TestParseBenchmarkRefusesOtherOutput(t *testing.T) {
	whole := report(t)
	summary := strings.Index(whole, "Summary:")
	for name, out := range map[string]string{
		"nothing":        "",
		"csv":            `"GET","119047.62","0.195","0.048","0.143","0.239","2.511","5.991"`,
		"no summary":     whole[:summary],
		"no percentiles": whole[summary:],
		"no latencies":   strings.TrimSuffix(whole, "5.991\n"),
	} {
		if got, err := parseBenchmark(out); !errors.Is(err, errOutput) {
			t.Errorf("%s: got %+v, %v, want %v", name, got, err, errOutput)
		}
	}
}

func TestLastLine(t *testing.T) {
	for out, want := range map[string]string{
		"": "",
		"GET: rps=0.0\r   \rError from server: ERR no\n":     "Error from server: ERR no\n",
		"Could not connect to Redis at 127.0.0.1:1: refused": "Could not connect to Redis at 127.0.0.1:1: refused\n",
	} {
		if got := lastLine(out); got != want {
			t.Errorf("%q: got %q, want %q", out, got, want)
		}
	}
}
