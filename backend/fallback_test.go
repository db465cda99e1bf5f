package backend

import (
	"fmt"
	"strings"
	"testing"

	"cellproxy/commands"
	"cellproxy/test/wire"
)

func throttle(key string, rest ...string) []byte {
	return wire.Encode(append([]string{"CL.THROTTLE", key}, rest...))
}

func TestPolicies(t *testing.T) {
	first := throttle("k", "1", "1", "60")
	for _, test := range []struct {
		policy Policy
		want   []string // of one call after the other; a local reset_after hides the clock
	}{
		{PolicyError, []string{"", ""}},
		{PolicyAllow, []string{"*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n"}},
		{PolicyDeny, []string{"*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:1\r\n", "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:1\r\n"}},
		{PolicyLocal, []string{"*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:", "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:", "*5\r\n:1\r\n:2\r\n:0\r\n:"}},
	} {
		f := newFallback(test.policy)
		for i, want := range test.want {
			if got := string(f.answer(0, first)); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s, call %d: got %q, want %q", test.policy, i, got, want)
			}
		}
	}
}

func TestPolicyAnswersErrorsLikeTheScript(t *testing.T) {
	f := newFallback(PolicyLocal)
	far := throttle("k", "0", "1", "9223372036") // full only after 2262
	if got, want := string(f.answer(0, far)), "-ERR value is out of range, times must fit 64-bit nanoseconds\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := f.answer(0, wire.Encode([]string{"GET", "k"})); got != nil {
		t.Errorf("GET was answered %q", got)
	}
}

func TestLocalLimitsAreApart(t *testing.T) {
	f := newFallback(PolicyLocal)
	long := strings.Repeat("x", 3*longKey)
	for _, k := range []struct {
		db  int
		key string
	}{{0, "k"}, {1, "k"}, {0, "other"}, {0, long}, {0, long + "y"}, {0, long[:longKey]}} {
		if got, want := string(f.answer(k.db, throttle(k.key, "0", "1", "60"))), "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:"; !strings.HasPrefix(got, want) {
			t.Errorf("db %d, key %.10s: got %q, want %q", k.db, k.key, got, want)
		}
	}
	f.forget()
	if got := string(f.answer(0, throttle("k", "0", "1", "60"))); !strings.HasPrefix(got, "*5\r\n:0\r\n") {
		t.Errorf("after forget: %q", got)
	}
}

// TestLocalLimitsAreBounded uses far more keys than there is room for, but one
// of them all the time.
func TestLocalLimitsAreBounded(t *testing.T) {
	const most = 100 * 2 * localOverhead
	limits := newLocalLimits(most)
	run := func(key string) int64 {
		var call commands.Call
		if err := commands.ParseRaw(throttle(key, "10000", "1", "3600"), &call); err != nil {
			t.Fatal(err)
		}
		reply, err := limits.run(0, &call, 1e15)
		if err != nil {
			t.Fatal(err)
		}
		return reply[2]
	}
	for i := range 10000 {
		run(fmt.Sprintf("%0*d", i%longKey+10, i))
		if got, want := run("busy"), int64(10000-i); got != want {
			t.Fatalf("after %d others %d remain, want %d", i, got, want)
		}
		if limits.size > most {
			t.Fatalf("%d bytes, want at most %d", limits.size, most)
		}
	}
	if n := limits.states.Len(); n < 100 {
		t.Errorf("%d keys kept, want at least 100", n)
	}
	limits.clear()
	if limits.size != 0 {
		t.Errorf("%d bytes left of nothing", limits.size)
	}
}

func TestParsePolicy(t *testing.T) {
	for _, policy := range Policies {
		if got, err := ParsePolicy(string(policy)); got != policy || err != nil {
			t.Errorf("%s: %s, %v", policy, got, err)
		}
	}
	if _, err := ParsePolicy("open"); err == nil {
		t.Error("there is no policy open")
	}
}
