package commands

import (
	"errors"
	"strconv"
	"strings"
)

// What clients are told, in Redis's words where it has any.
var (
	errNotInteger = errors.New("ERR value is not an integer or out of range")
	errRange      = errors.New("ERR limit is out of range: it does not fit 64-bit nanoseconds")
	errZeroRate   = errors.New("ERR Cell error: Store error: Zero rates are not supported")
	errNegative   = errors.New("ERR max_burst, count and period must not be negative")
)

func arityError(name string) error {
	return errors.New("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
}

// integer reads a decimal int64. Like redis-cell it takes a sign and leading
// zeros.
func integer(arg []byte) (int64, error) {
	n, err := strconv.ParseInt(string(arg), 10, 64)
	if err != nil {
		return 0, errNotInteger
	}
	return n, nil
}
