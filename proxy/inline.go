package proxy

// splitInline splits a line into words as redis-cli and Redis do: blanks
// separate, "…" takes \n, \r, \t, \b, \a, \" and \xHH, '…' takes only \'. It
// reports false for a quote that is not closed, or closed within a word.
func splitInline(line []byte) (words [][]byte, ok bool) {
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		if len(line) == 0 || line[0] == 0 {
			return words, true
		}
		var word []byte
		if word, line, ok = splitWord(line); !ok {
			return nil, false
		}
		words = append(words, word)
	}
}

// splitWord takes one word off a line.
func splitWord(line []byte) (word, rest []byte, ok bool) {
	word = []byte{}
	for len(line) > 0 && !endsWord(line[0]) {
		switch line[0] {
		case '"':
			word, line, ok = splitDouble(word, line[1:])
		case '\'':
			word, line, ok = splitSingle(word, line[1:])
		default:
			word, line, ok = append(word, line[0]), line[1:], true
			continue
		}
		if !ok || len(line) > 0 && !isSpace(line[0]) {
			return nil, nil, false
		}
		return word, line, true
	}
	return word, line, true
}

// splitDouble takes what stands behind a double quote.
func splitDouble(word, line []byte) (_, rest []byte, ok bool) {
	for len(line) > 0 {
		c := line[0]
		switch {
		case c == '"':
			return word, line[1:], true
		case c == '\\' && len(line) >= 4 && line[1] == 'x' && isHex(line[2]) && isHex(line[3]):
			word = append(word, unhex(line[2])<<4|unhex(line[3]))
			line = line[4:]
			continue
		case c == '\\' && len(line) >= 2:
			c = unescape(line[1])
			line = line[1:]
		}
		word = append(word, c)
		line = line[1:]
	}
	return nil, nil, false
}

// splitSingle takes what stands behind a single quote.
func splitSingle(word, line []byte) (_, rest []byte, ok bool) {
	for len(line) > 0 {
		c := line[0]
		if c == '\'' {
			return word, line[1:], true
		}
		if c == '\\' && len(line) >= 2 && line[1] == '\'' {
			c = '\''
			line = line[1:]
		}
		word = append(word, c)
		line = line[1:]
	}
	return nil, nil, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// isSpace is C's isspace: what may stand between words.
func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}

// endsWord reports whether an unquoted word ends at c. Vertical tabs and form
// feeds are spaces to Redis, but only in front of a word.
func endsWord(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
