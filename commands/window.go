package commands

// window is how much may be admitted in which time.
type window struct {
	limit  int64
	micros int64
}

// parseWindow reads the words of a limit and its milliseconds.
func parseWindow(words [][]byte) (w window, err error) {
	var millis int64
	if err := parseIntegers(words[:2], &w.limit, &millis); err != nil {
		return w, err
	}
	switch {
	case w.limit < 1 || w.limit > maxCount:
		return w, rangeError("limit", 1, maxCount)
	case millis < 1 || millis > maxCount:
		return w, rangeError("window_ms", 1, maxCount)
	}
	w.micros = millis * 1000
	return w, nil
}

// parseLimit reads what the commands of one window begin with:
//
//	command key limit window_ms [quantity]
//
// It fills the call's window and quantity and returns the options behind them.
func parseLimit(args [][]byte, call *Call) (options [][]byte, err error) {
	if call.window, err = parseWindow(args[2:4]); err != nil {
		return nil, err
	}
	return parseQuantity(args[4:], call)
}

// remaining is what the limit leaves when some is used. That may be more than
// the limit, if it was a larger one before.
func (w window) remaining(used int64) int64 { return max(w.limit-used, 0) }

// microsUp returns a time in milliseconds, rounded up, given in microseconds.
func microsUp(micros int64) int64 { return divideUp(micros, 1000) }
