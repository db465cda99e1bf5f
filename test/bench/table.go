package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// medianOf returns the median of each figure, or no numbers if there is no
// sample.
func medianOf(samples []sample) sample {
	figure := func(get func(s sample) float64) float64 {
		var figures []float64
		for _, s := range samples {
			figures = append(figures, get(s))
		}
		return median(figures)
	}
	return sample{
		rate:        figure(func(s sample) float64 { return s.rate }),
		p50:         figure(func(s sample) float64 { return s.p50 }),
		p99:         figure(func(s sample) float64 { return s.p99 }),
		p999:        figure(func(s sample) float64 { return s.p999 }),
		proxyMicros: figure(func(s sample) float64 { return s.proxyMicros }),
		redisMicros: figure(func(s sample) float64 { return s.redisMicros }),
	}
}

func median(figures []float64) float64 {
	if len(figures) == 0 {
		return math.NaN()
	}
	figures = slices.Sorted(slices.Values(figures))
	middle := len(figures) / 2
	if len(figures)%2 == 0 {
		return (figures[middle-1] + figures[middle]) / 2
	}
	return figures[middle]
}

// heading begins a table whose ratios are to the candidate named reference.
func heading(reference string) string {
	return tableRow("c", "P", "through", "requests/s", "× "+reference, "p50 ms", "p99 ms", "p99.9 ms", "proxy µs", "Redis µs") +
		tableRow("--:", "--:", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:")
}

func row(clients, pipeline int, name string, s, reference sample) string {
	return tableRow(strconv.Itoa(clients), strconv.Itoa(pipeline), name, thousands(s.rate), number(s.rate/reference.rate, 2),
		number(s.p50, 3), number(s.p99, 3), number(s.p999, 3), number(s.proxyMicros, 1), number(s.redisMicros, 1))
}

func tableRow(cells ...string) string {
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// number writes a figure, or a dash if there is none.
func number(f float64, decimals int) string {
	if math.IsNaN(f) {
		return "–"
	}
	return strconv.FormatFloat(f, 'f', decimals, 64)
}

// thousands writes a whole number in groups of three digits.
func thousands(f float64) string {
	digits := number(f, 0)
	for i := len(digits) - 3; i > 0 && !math.IsNaN(f); i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// megabytes writes a number of bytes.
func megabytes(bytes float64) string {
	return fmt.Sprintf("%s MB", number(bytes/1e6, 1))
}
