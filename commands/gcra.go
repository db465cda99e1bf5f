package commands

import (
	"time"

	"cellproxy/gcra"
)

// parseGCRA fills the call of a command that is GCRA, call.quantity being set.
// The script gets
//
//	tolerance - increment, seconds and nanoseconds
//	increment, seconds and nanoseconds
//	unit, what it divides time by to count units
//	burst
//
// Nanoseconds do not fit a Lua number, so it gets times in two parts: whole
// seconds, rounded down, and 0 to 999999999 nanoseconds.
func parseGCRA(call *Call, interval time.Duration, burst, unit int64) error {
	limit, err := gcra.New(interval, burst)
	if err != nil {
		return errOverflow
	}
	increment, err := limit.Increment(call.quantity)
	if err != nil {
		return errOverflow
	}
	call.limit = limit
	incrementS, incrementNS := splitSeconds(int64(increment))
	toleranceS, toleranceNS := splitSeconds(int64(limit.Tolerance()))
	slackS, slackNS := toleranceS-incrementS, toleranceNS-incrementNS
	if slackNS < 0 {
		slackS, slackNS = slackS-1, slackNS+1e9
	}
	call.argv = append(call.argv, slackS, slackNS, incrementS, incrementNS, unit, burst)
	return nil
}

// splitSeconds returns the whole seconds of a time, rounded down, and the
// nanoseconds that are left.
func splitSeconds(nanos int64) (seconds, rest int64) {
	seconds, rest = nanos/1e9, nanos%1e9
	if rest < 0 {
		seconds, rest = seconds-1, rest+1e9
	}
	return seconds, rest
}
