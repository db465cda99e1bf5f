package doctor

import (
	"slices"
	"testing"
	"time"
)

func TestJudgeVersion(t *testing.T) {
	for _, test := range []struct {
		told  info
		level Level
		text  string
	}{
		{info{"redis_version": "7.0.15"}, OK, "Redis 7.0.15"},
		{info{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"}, OK, "Valkey 8.1.0"},
		{info{"redis_version": "5.0.14"}, Warning, "RESP3"},
		{info{"redis_version": "3.2.0"}, Warning, "RESP3"},
		{info{"redis_version": "3.0.7"}, Failure, "no scripts that ask for the time"},
		{info{"redis_version": "2.8.19"}, Failure, "no scripts that ask for the time"},
		{info{"redis_version": "newest"}, Unknown, "newest"},
		{info{}, Unknown, "INFO"},
	} {
		expect(t, judgeVersion(test.told), test.level, []string{test.text})
	}
}

func TestJudgeEviction(t *testing.T) {
	for _, test := range []struct {
		told  info
		level Level
		text  string
	}{
		{info{"maxmemory": "0", "maxmemory_policy": "allkeys-lru", "used_memory": "1000"}, OK, "nothing is evicted"},
		{info{"maxmemory": "104857600", "maxmemory_policy": "noeviction", "used_memory": "1048576"}, OK, "100 MB, 1 % used"},
		{info{"maxmemory": "104857600", "maxmemory_policy": "noeviction", "used_memory": "94371840"}, Warning, "90 % used"},
		{info{"maxmemory": "104857600", "maxmemory_policy": "volatile-lfu", "used_memory": "1"}, Warning, "evicted"},
		{info{"maxmemory": "104857600"}, Unknown, "maxmemory"},
		{info{}, Unknown, "maxmemory"},
	} {
		expect(t, judgeEviction(test.told), test.level, []string{test.text})
	}
}

func TestJudgeLatency(t *testing.T) {
	trips := func(usual, slowest time.Duration) []time.Duration {
		return append(slices.Repeat([]time.Duration{usual}, 99), slowest)
	}
	fast := trips(100*time.Microsecond, time.Millisecond)
	for _, test := range []struct {
		pings, calls []time.Duration
		level        Level
		text         string
	}{
		{fast, fast, OK, "PING p50 100µs p99 1ms, CL.THROTTLE p50 100µs p99 1ms"},
		{trips(100*time.Microsecond, 600*time.Millisecond), fast, Warning, "--upstream-timeout"},
		{fast, trips(time.Millisecond, 2*time.Second), Warning, "the slowest 2s"},
		{trips(6*time.Millisecond, 9*time.Millisecond), fast, Warning, "nearer"},
		{fast[:1], fast[:1], OK, "p99 100µs"},
	} {
		expect(t, judgeLatency(test.pings, test.calls, time.Second), test.level, []string{test.text})
	}
}

// TestJudgeClock has round trips in which the clock may have been read at any
// moment: only what that can't explain counts.
func TestJudgeClock(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		ahead, roundTrip time.Duration
		level            Level
		text             string
	}{
		{0, 0, OK, "0s ahead"},
		{900 * time.Millisecond, time.Millisecond, OK, "ahead of this machine's"},
		{1500 * time.Millisecond, time.Millisecond, Warning, "ALIGN"},
		{-1500 * time.Millisecond, time.Millisecond, Warning, "1.5s behind"},
		{5 * time.Second, 10 * time.Second, OK, "give or take 5s"},
	} {
		expect(t, judgeClock(began.Add(test.ahead), began, test.roundTrip), test.level, []string{test.text})
	}
}

func TestJudgeCluster(t *testing.T) {
	for _, test := range []struct {
		told  info
		level Level
		text  string
	}{
		{info{"cluster_state": "ok", "cluster_slots_assigned": "16384", "cluster_known_nodes": "1", "cluster_size": "1"}, OK, "1 nodes"},
		{info{"cluster_state": "ok", "cluster_slots_assigned": "16384", "cluster_slots_pfail": "5461"}, Warning, "5461"},
		{info{"cluster_state": "fail", "cluster_slots_assigned": "16384", "cluster_slots_fail": "5461"}, Failure, "5461 of them on failed nodes"},
		{info{"cluster_state": "fail", "cluster_slots_assigned": "16383"}, Failure, "16383 of 16384"},
	} {
		expect(t, judgeCluster(test.told), test.level, []string{test.text})
	}
}

func TestLoopbackOnly(t *testing.T) {
	for bound, want := range map[string]bool{
		"127.0.0.1 -::1": true, "127.0.0.1": true, "* -::*": false, "": false, "127.0.0.1 10.0.0.5": false, "0.0.0.0": false,
	} {
		if got := loopbackOnly(bound); got != want {
			t.Errorf("%q: got %v, want %v", bound, got, want)
		}
	}
}
