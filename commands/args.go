package commands

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Errors that limiter commands have in common. Their texts are complete Redis
// errors; the scripts that find the same say the same.
var (
	errNegative   = errors.New("ERR quantity must not be negative")
	errNotInteger = errors.New("ERR value is not an integer or out of range")
	errOverflow   = errors.New("ERR value is out of range, times must fit 64-bit nanoseconds")
	errRefill     = errors.New("ERR value is out of range, the whole capacity must come back within 142 years")
	errMoment     = errors.New("ERR value is out of range, times must fit 53-bit microseconds")
	errSyntax     = errors.New("ERR syntax error")
	errZeroRate   = errors.New("ERR Cell error: Store error: Zero rates are not supported")
	errWrongType  = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
)

// arityError is Redis's own.
func arityError(c *Command) error {
	return fmt.Errorf("ERR wrong number of arguments for '%s' command", strings.ToLower(c.Name))
}

// stateError says that a key holds a string that the command did not write.
func stateError(command string) error {
	return fmt.Errorf("ERR value is not a state of %s", command)
}

// rangeError says between what an argument must be.
func rangeError(argument string, least, most int64) error {
	return fmt.Errorf("ERR %s must be between %d and %d", argument, least, most)
}

// maxExact is the largest number up to which a Lua number, and so a script's
// reply, is exact: 2^53.
const maxExact = 1 << 53

// maxCount is the largest number of units, and of milliseconds, 31 years, that a
// command other than CL.THROTTLE takes. With it everything that the scripts
// compute is far from maxExact.
const maxCount = 1_000_000_000_000

// parseInteger reads a decimal int64. As redis-cell does, and unlike Redis, it
// takes a plus sign and zeros in front.
func parseInteger(word []byte) (int64, error) {
	n, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil {
		return 0, errNotInteger
	}
	return n, nil
}

// parseIntegers reads decimal int64s into numbers of the same count.
func parseIntegers(words [][]byte, numbers ...*int64) error {
	for i, word := range words {
		n, err := parseInteger(word)
		if err != nil {
			return err
		}
		*numbers[i] = n
	}
	return nil
}

// parseQuantity takes the quantity in front of options, if it is there, and
// returns the options.
func parseQuantity(words [][]byte, call *Call) (options [][]byte, err error) {
	call.quantity = 1
	if len(words) == 0 || isToken(words[0]) {
		return words, nil
	}
	call.quantity, err = parseInteger(words[0])
	return words[1:], err
}

// isToken reports whether a word can be no number, as it begins with a letter.
func isToken(word []byte) bool {
	return len(word) > 0 && ('a' <= word[0]|0x20 && word[0]|0x20 <= 'z')
}
