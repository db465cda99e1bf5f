package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cellproxy/proxy"
)

var (
	errNotLimits = errors.New(`must be a hard limit, a soft limit and seconds, like "32mb 8mb 60"`)
	errNotBytes  = errors.New("must be bytes, like 1024, 64kb, 8mb or 1gb")
)

// byteUnits are the units that redis.conf has for bytes.
var byteUnits = map[string]int64{
	"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000 * 1000, "mb": 1 << 20, "g": 1000 * 1000 * 1000, "gb": 1 << 30,
}

// parseOutputLimits reads limits as redis.conf has them for a class of clients.
func parseOutputLimits(text string) (limits proxy.OutputLimits, err error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return limits, errNotLimits
	}
	if limits.Hard, err = parseLimit(fields[0]); err != nil {
		return limits, err
	}
	if limits.Soft, err = parseLimit(fields[1]); err != nil {
		return limits, err
	}
	seconds, err := strconv.ParseUint(fields[2], 10, 31)
	if err != nil {
		return limits, errNotLimits
	}
	limits.SoftTime = time.Duration(seconds) * time.Second
	return limits, nil
}

// parseLimit reads a number of bytes; 0 is no limit.
func parseLimit(text string) (int, error) {
	digits := strings.TrimRight(strings.ToLower(text), "bgkm")
	unit, known := byteUnits[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > math.MaxInt/unit {
		return 0, fmt.Errorf("%q %w", text, errNotBytes)
	}
	if n == 0 {
		return proxy.Unlimited, nil
	}
	return int(n * unit), nil
}
