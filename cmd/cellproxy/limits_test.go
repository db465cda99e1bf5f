package main

import (
	"testing"
	"time"

	"cellproxy/proxy"
)

func TestParseOutputLimits(t *testing.T) {
	for text, want := range map[string]proxy.OutputLimits{
		"32mb 8mb 60":     proxy.DefaultSubscriberLimits,
		"1024 1k 0":       {Hard: 1024, Soft: 1000},
		"  1GB 64Kb  1  ": {Hard: 1 << 30, Soft: 64 << 10, SoftTime: time.Second},
		"0 0 0":           {Hard: proxy.Unlimited, Soft: proxy.Unlimited},
		"3m 2g 3":         {Hard: 3e6, Soft: 2e9, SoftTime: 3 * time.Second},
	} {
		if got, err := parseOutputLimits(text); got != want || err != nil {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "1mb", "1mb 1mb", "1mb 1mb 1 1", "-1 0 0", "1tb 0 0", "mb 0 0", "1bb 0 0", "0 0 -1", "0 0 x",
		"9223372036854775807gb 0 0",
	} {
		if got, err := parseOutputLimits(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}
