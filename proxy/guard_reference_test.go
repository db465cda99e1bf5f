package proxy

import (
	"strconv"
	"strings"
)

// reference says what a stream means, taking it as a whole: the commands,
// encoded, and the text of the protocol error that ends them, if one does.
func reference(in string, authenticated bool) (commands []string, problem string) {
	for in != "" {
		args, rest, problem, whole := referenceCommand(in, authenticated)
		if problem != "" || !whole {
			return commands, problem
		}
		if len(args) > 0 {
			commands = append(commands, encoded(args...))
		}
		in = rest
	}
	return commands, ""
}

func referenceCommand(in string, authenticated bool) (args []string, rest, problem string, whole bool) {
	if in[0] != '*' {
		return referenceInline(in)
	}
	count, rest, found := referenceLine(in, "\r")
	if !found {
		return nil, "", tooLongFor(in, "too big mbulk count string"), false
	}
	if rest == "" {
		return nil, "", "", false
	}
	n, ok := referenceNumber(count[1:])
	switch {
	case !ok || n > maxCount:
		return nil, "", "invalid multibulk length", false
	case n > maxStrangerArgs && !authenticated:
		return nil, "", "unauthenticated multibulk length", false
	case n > maxArgs:
		return nil, "", "invalid multibulk length", false
	}
	in = rest[1:]
	for range n {
		arg, rest, problem, whole := referenceBulk(in, authenticated)
		if problem != "" || !whole {
			return nil, "", problem, false
		}
		args, in = append(args, arg), rest
	}
	return args, in, "", true
}

func referenceBulk(in string, authenticated bool) (arg, rest, problem string, whole bool) {
	length, rest, found := referenceLine(in, "\r")
	if !found {
		return "", "", tooLongFor(in, "too big bulk count string"), false
	}
	if rest == "" {
		return "", "", "", false
	}
	if !strings.HasPrefix(length, "$") {
		got := strings.NewReplacer("\r", " ", "\n", " ").Replace(in[:1])
		return "", "", "expected '$', got '" + got + "'", false
	}
	n, ok := referenceNumber(length[1:])
	switch {
	case !ok || n < 0 || n > maxBulk:
		return "", "", "invalid bulk length", false
	case n > maxStrangerBulk && !authenticated:
		return "", "", "unauthenticated bulk length", false
	case len(rest) < 1+n+2:
		return "", "", "", false
	}
	return rest[1 : 1+n], rest[1+n+2:], "", true
}

func referenceInline(in string) (args []string, rest, problem string, whole bool) {
	line, rest, found := referenceLine(in, "\n")
	if !found {
		return nil, "", tooLongFor(in, "too big inline request"), false
	}
	args, ok := referenceWords(strings.TrimSuffix(line, "\r"))
	if !ok {
		return nil, "", "unbalanced quotes in request", false
	}
	return args, rest, "", true
}

// referenceLine cuts a C string at its end of line, if that comes in time.
func referenceLine(in, end string) (line, rest string, found bool) {
	zeroTerminated, _, _ := strings.Cut(in, "\x00")
	at := strings.Index(zeroTerminated, end)
	if at < 0 || at > maxLine {
		return "", "", false
	}
	return in[:at], in[at+1:], true
}

func tooLongFor(in, problem string) string {
	if len(in) > maxLine {
		return problem
	}
	return ""
}

// referenceNumber takes numbers as they are written by machines.
func referenceNumber(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && strconv.Itoa(n) == text
}

// referenceWords is a state machine that looks at one character at a time, and
// at those before it by what it has become.
func referenceWords(line string) (words []string, ok bool) {
	const (
		between = iota
		inWord
		inDouble
		inSingle
		closed
	)
	state, word := between, ""
	for i := 0; i < len(line); i++ {
		c := line[i]
		space := strings.IndexByte(" \t\n\v\f\r", c) >= 0
		switch {
		case state == inDouble && c == '\\' && i+3 < len(line) && line[i+1] == 'x' && referenceHex(line[i+2:i+4]) >= 0:
			word += string([]byte{byte(referenceHex(line[i+2 : i+4]))})
			i += 3
		case state == inDouble && c == '\\' && i+1 < len(line):
			i++
			at := strings.IndexByte("nrtba", line[i])
			word += (line[i:i+1] + "\n\r\t\b\a")[at+1 : at+2]
		case state == inSingle && c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			i++
			word += "'"
		case state == inDouble && c == '"', state == inSingle && c == '\'':
			state = closed
			words, word = append(words, word), ""
		case state == inDouble || state == inSingle:
			word += line[i : i+1]
		case state == closed && !space:
			return nil, false
		case state == closed || state == between && space:
			state = between
		case state == inWord && space && c != '\v' && c != '\f':
			state = between
			words, word = append(words, word), ""
		case c == '"':
			state = inDouble
		case c == '\'':
			state = inSingle
		default:
			state = inWord
			word += line[i : i+1]
		}
	}
	if state == inWord {
		words = append(words, word)
	}
	return words, state != inDouble && state != inSingle
}

// referenceHex returns the value of two hexadecimal digits, or -1.
func referenceHex(digits string) int {
	n, err := strconv.ParseUint(digits, 16, 8)
	if err != nil {
		return -1
	}
	return int(n)
}
