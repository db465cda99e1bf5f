package test

import (
	"fmt"
	"strings"
	"testing"
)

// The tests of this file are the rows of the README's table of differences
// from redis-cell: inputs that redis-cell crashes on, or answers with nonsense.

// someTime is a moment with microseconds, in nanoseconds.
const someTime = int64(1_900_000_000_123_456_000)

func TestKeyThatHoldsSomethingElse(t *testing.T) {
	c := newClocked(t)
	for _, test := range []struct {
		name, make, want string
	}{
		{"list", "RPUSH k a b", "-WRONGTYPE "},
		{"hash", "HSET k a b", "-WRONGTYPE "},
		{"set", "SADD k a b", "-WRONGTYPE "},
		{"sorted set", "ZADD k 1 a", "-WRONGTYPE "},
		{"stream", "XADD k 1-1 a b", "-WRONGTYPE "},
		{"word", "SET k hello", "-ERR "},
		{"fraction", "SET k 1900000000123456000.5", "-ERR "},
		{"exponent", "SET k 1.9e18", "-ERR "},
		{"hexadecimal", "SET k 0x1A5E2C4B3D6F7000", "-ERR "},
		{"negative", "SET k -1900000000123456000", "-ERR "},
		{"beyond int64", "SET k 9223372036854775808", "-ERR "},
		{"many digits", "SET k " + strings.Repeat("1", 400), "-ERR "},
		{"digits and more", "SET k 1900000000123456000x", "-ERR "},
		{"not a number", "SET k nan", "-ERR "},
		{"infinity", "SET k inf", "-ERR "},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.redis.SetClock(someTime)
			c.direct.Do("DEL", "k")
			c.direct.Do(strings.Fields(test.make)...)
			before := c.direct.Do("DUMP", "k")
			for _, quantity := range []string{"0", "1", "-1", "100"} {
				got := c.client.Do("CL.THROTTLE", "k", "15", "30", "60", quantity)
				if !strings.HasPrefix(got, test.want) {
					t.Errorf("quantity %s: got %q, want %q", quantity, got, test.want)
				}
			}
			if after := c.direct.Do("DUMP", "k"); after != before {
				t.Errorf("the value was %q and is %q", before, after)
			}
			if got := c.direct.Do("PTTL", "k"); got != ":-1\r\n" {
				t.Errorf("PTTL = %q, want none", got)
			}
		})
	}
}

func TestEmptyString(t *testing.T) {
	c := newClocked(t)
	c.direct.Do("SET", "k", "")
	if got := c.client.Do("CL.THROTTLE", "k", "15", "30", "60"); !strings.HasPrefix(got, "-ERR ") {
		t.Errorf("got %q, want an error", got)
	}
	if got := c.stored("k"); got != "$0\r\n\r\n" {
		t.Errorf("the value is now %q", got)
	}
}

func TestKeyOfAnyBytes(t *testing.T) {
	c := newClocked(t)
	for _, key := range []string{"", "\xff\xfe", "\x00", "a\r\nb", "clé", "{tag}k", strings.Repeat("\x80", 100_000)} {
		for _, want := range []string{integers(0, 16, 15, -1, 2), integers(0, 16, 14, -1, 4)} {
			if got := c.client.Do("CL.THROTTLE", key, "15", "30", "60"); got != want {
				t.Errorf("key %.20q: got %q, want %q", key, got, want)
			}
		}
		if got := c.direct.Do("EXISTS", key); got != ":1\r\n" {
			t.Errorf("key %.20q: EXISTS = %q", key, got)
		}
	}
}

func TestArgumentsThatMeanNothing(t *testing.T) {
	c := newClocked(t)
	const (
		zeroRate = "-ERR Cell error: Store error: Zero rates are not supported\r\n"
		arity    = "-ERR wrong number of arguments for 'cl.throttle' command\r\n"
	)
	for _, test := range []struct{ args, want string }{
		{"k -1 30 60", "-ERR "},
		{"k 15 -30 60", "-ERR "},
		{"k 15 30 -60", "-ERR "},
		{"k 15 -30 -60", "-ERR "},
		{"k -9223372036854775808 30 60", "-ERR "},
		{"k 15 0 60", zeroRate},
		{"k 15 30 0", zeroRate},
		{"k 15 0 0", zeroRate},
		{"k 9223372036854775807 30 60", "-ERR "},
		{"k 9223372036854775806 30 60", "-ERR "},
		{"k 9223372036854775808 30 60", "-ERR "},
		{"k 15 9223372036854775808 60", "-ERR "},
		{"k 15 30 9223372036854775807", "-ERR "},
		{"k 15 1 9223372036", "-ERR "},
		{"k 15 30 60 9223372036854775807", "-ERR "},
		{"k 15 30 60 9223372036854775808", "-ERR "},
		{"k 9223372036 1 1", "-ERR "},
		{"k 8000000000 1 1 8000000000", "-ERR "}, // would be full again beyond int64
		{"k x 30 60", "-ERR "},
		{"k 15 x 60", "-ERR "},
		{"k 15 30 x", "-ERR "},
		{"k 15 30 60 x", "-ERR "},
		{"k 1.5 30 60", "-ERR "},
		{"k 15 1e3 60", "-ERR "},
		{"k 15 30 60 +", "-ERR "},
		{"", arity},
		{"k", arity},
		{"k 15", arity},
		{"k 15 30", arity},
		{"k 15 30 60 1 1", arity},
		{"k x x x x x", arity},
	} {
		args := append([]string{"CL.THROTTLE"}, strings.Fields(test.args)...)
		got := c.client.Do(args...)
		if got != test.want && (!strings.HasPrefix(got, test.want) || strings.HasSuffix(test.want, "\r\n")) {
			t.Errorf("%q = %q, want %q", args, got, test.want)
		}
	}
	if got := c.direct.Do("DBSIZE"); got != ":0\r\n" {
		t.Errorf("DBSIZE = %q after refused commands", got)
	}
}

// TestMoreThanOnePerMicrosecond has an emission interval of 200 ns: redis-cell
// divides by its 0 whole microseconds.
func TestMoreThanOnePerMicrosecond(t *testing.T) {
	c := newClocked(t)
	throttle := []string{"CL.THROTTLE", "k", "9", "5000000", "1"}
	for _, step := range []struct {
		afterMicros int64
		want        string
	}{
		{0, integers(0, 10, 9, -1, 1)},
		{0, integers(0, 10, 8, -1, 1)},
		{1, integers(0, 10, 9, -1, 1)}, // 5 came back in 1 µs, to no more than full
	} {
		c.redis.SetClock(someTime + step.afterMicros*1000)
		got := c.client.Do(throttle...)
		if withoutReset(got) != withoutReset(step.want) {
			t.Errorf("after %d µs: got %q, want %q", step.afterMicros, got, step.want)
		}
	}
	c.redis.SetClock(someTime + 1_000_000_000)
	for taken := int64(1); taken <= 10; taken++ {
		if got := c.client.Do(throttle...); withoutReset(got) != withoutReset(integers(0, 10, 10-taken, -1, 0)) {
			t.Errorf("taken %d: got %q", taken, got)
		}
	}
	if got := c.client.Do(throttle...); !strings.HasPrefix(got, "*5\r\n:1\r\n:10\r\n:0\r\n") {
		t.Errorf("the 11th of 10: got %q, want a refusal", got)
	}
}

// withoutReset cuts off a reply's last number.
func withoutReset(reply string) string {
	parts := strings.SplitAfter(reply, "\r\n")
	return strings.Join(parts[:max(0, len(parts)-2)], "")
}

// TestIntervalsOfUnwholeMicroseconds has intervals like 1428 ns, which
// redis-cell takes for 1 µs when it counts what remains.
func TestIntervalsOfUnwholeMicroseconds(t *testing.T) {
	c := newClocked(t)
	for _, count := range []int64{700_000, 999_999, 600_001, 1_000_001, 300_001} {
		for _, burst := range []int64{0, 1, 1000, 1_000_000} {
			key := fmt.Sprintf("%d/%d", count, burst)
			for _, quantity := range []string{"0", "1", "1", "-5"} {
				reply := c.client.Do("CL.THROTTLE", key, fmt.Sprint(burst), fmt.Sprint(count), "1", quantity)
				var limited, limit, remaining int64
				if _, err := fmt.Sscanf(reply, "*5\r\n:%d\r\n:%d\r\n:%d\r\n", &limited, &limit, &remaining); err != nil {
					t.Fatalf("%s: %q", key, reply)
				}
				if limit != burst+1 || remaining < 0 || remaining > limit {
					t.Errorf("%s quantity %s: limit %d, remaining %d", key, quantity, limit, remaining)
				}
			}
		}
	}
}

// TestStateOutlivesItsLastMillisecond has tokens come back within less than a
// millisecond, for which redis-cell sets no TTL that could last.
func TestStateOutlivesItsLastMillisecond(t *testing.T) {
	c := newClocked(t)
	for _, step := range []struct {
		afterMicros int64
		limited     int
	}{
		{0, 0}, {0, 1}, {50, 1}, {99, 1}, {100, 0}, {199, 1}, {200, 0},
	} {
		c.redis.SetClock(someTime + step.afterMicros*1000)
		got := c.client.Do("CL.THROTTLE", "k", "0", "10000", "1")
		if want := fmt.Sprintf("*5\r\n:%d\r\n:1\r\n", step.limited); !strings.HasPrefix(got, want) {
			t.Errorf("after %d µs: got %q, want limited %d", step.afterMicros, got, step.limited)
		}
	}
	c.redis.SetClock(someTime + 2_000_000)
	if got := c.stored("k"); got != "$-1\r\n" {
		t.Errorf("2 ms later there still is %q", got)
	}
}

func TestNegativeQuantityGivesBack(t *testing.T) {
	c := newClocked(t)
	c.redis.SetClock(someTime)
	for _, step := range []struct{ quantity, want, pttl string }{
		{"5", integers(0, 16, 11, -1, 10), ":10000\r\n"},
		{"-3", integers(0, 16, 14, -1, 4), ":4000\r\n"},
		{"-100", integers(0, 16, 16, -1, 0), ":-2\r\n"},
		{"-1", integers(0, 16, 16, -1, 0), ":-2\r\n"},
		{"16", integers(0, 16, 0, -1, 32), ":32000\r\n"},
		{"1", integers(1, 16, 0, 2, 32), ":32000\r\n"},
		{"-1", integers(0, 16, 1, -1, 30), ":30000\r\n"},
		{"1", integers(0, 16, 0, -1, 32), ":32000\r\n"},
	} {
		if got := c.client.Do("CL.THROTTLE", "k", "15", "30", "60", step.quantity); got != step.want {
			t.Errorf("quantity %s: got %q, want %q", step.quantity, got, step.want)
		}
		got := c.direct.Do("PTTL", "k")
		if got != step.pttl && got != nextMillisecond(step.pttl) {
			t.Errorf("quantity %s: PTTL %q, want %q", step.quantity, got, step.pttl)
		}
	}
}

// nextMillisecond is the TTL that Redis tells if it takes the beginning of the
// millisecond for the present.
func nextMillisecond(pttl string) string {
	var ms int
	fmt.Sscanf(pttl, ":%d", &ms)
	return fmt.Sprintf(":%d\r\n", ms+1)
}

// TestPeeksAndRefusalsChangeNothing sees that what is stored stays as it is.
func TestPeeksAndRefusalsChangeNothing(t *testing.T) {
	c := newClocked(t)
	c.redis.SetClock(someTime)
	c.client.Do("CL.THROTTLE", "k", "15", "30", "60", "4")
	c.redis.SetClock(someTime + 1_234_567_000)
	value, ttl := c.stored("k"), c.direct.Do("PTTL", "k")
	for _, quantity := range []string{"0", "17", "16", "0"} { // peeks, what never fits and what does not now
		c.client.Do("CL.THROTTLE", "k", "15", "30", "60", quantity)
		if c.stored("k") != value || c.direct.Do("PTTL", "k") != ttl {
			t.Errorf("quantity %s: was %q for %q, is %q for %q", quantity, value, ttl, c.stored("k"), c.direct.Do("PTTL", "k"))
		}
	}
}

// TestPeekAtNothingLeavesNothingThatLasts has redis-cell's own way: it stores
// the present, which means the same as no state and is soon gone.
func TestPeekAtNothingLeavesNothingThatLasts(t *testing.T) {
	c := newClocked(t)
	c.redis.SetClock(someTime)
	if got, want := c.client.Do("CL.THROTTLE", "k", "15", "30", "60", "0"), integers(0, 16, 16, -1, 0); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c.redis.SetClock(someTime + 2_000_000)
	if got := c.direct.Do("EXISTS", "k"); got != ":0\r\n" {
		t.Errorf("EXISTS = %q 2 ms after a peek", got)
	}
}
