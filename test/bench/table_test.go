package main

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		figures []float64
		want    float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 3, 9, 1}, 3.5},
	} {
		if got := median(tt.figures); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.figures, got, tt.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("of nothing: got %v, want no number", got)
	}
}

func TestMedianOfTakesEachFigureByItself(t *testing.T) {
	got := medianOf([]sample{
		{rate: 1, p50: 2, p99: 9, p999: 4, proxyMicros: 7, redisMicros: 1},
		{rate: 2, p50: 3, p99: 7, p999: 6, proxyMicros: 9, redisMicros: 3},
		{rate: 3, p50: 1, p99: 8, p999: 5, proxyMicros: 8, redisMicros: 2},
	})
	want := sample{rate: 2, p50: 2, p99: 8, p999: 5, proxyMicros: 8, redisMicros: 2}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRow(t *testing.T) {
	none := math.NaN()
	reference := sample{rate: 80000}
	for _, tt := range []struct {
		name string
		s    sample
		want string
	}{
		{"proxy", sample{rate: 60000.4, p50: 0.5, p99: 1.25, p999: 12.3456, proxyMicros: 6.66, redisMicros: 4.44},
			"| 50 | 16 | proxy | 60,000 | 0.75 | 0.500 | 1.250 | 12.346 | 6.7 | 4.4 |\n"},
		{"unknown processes", sample{rate: 1234567, p50: 1, p99: 2, p999: 3, proxyMicros: none, redisMicros: none},
			"| 50 | 16 | unknown processes | 1,234,567 | 15.43 | 1.000 | 2.000 | 3.000 | – | – |\n"},
		{"failed", medianOf(nil),
			"| 50 | 16 | failed | – | – | – | – | – | – | – |\n"},
	} {
		if got := row(50, 16, tt.name, tt.s, reference); got != tt.want {
			t.Errorf("%s: got\n%swant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestThousands(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 999: "999", 1000: "1,000", 12345.6: "12,346", 123456: "123,456", 1e6: "1,000,000",
	} {
		if got := thousands(f); got != want {
			t.Errorf("%v: got %q, want %q", f, got, want)
		}
	}
}
