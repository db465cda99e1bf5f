package cluster

import (
	"bytes"
	"strconv"
)

// AppendWords appends the words of a command, an array of bulk strings in RESP,
// which must be well-formed. They lie in the command.
func AppendWords(words [][]byte, command []byte) [][]byte {
	count, rest := cutNumber(command)
	for range count {
		var length int
		length, rest = cutNumber(rest)
		words = append(words, rest[:length:length])
		rest = rest[length+2:]
	}
	return words
}

// cutNumber takes a line of a mark and a number.
func cutNumber(b []byte) (n int, rest []byte) {
	end := bytes.IndexByte(b, '\r')
	for _, digit := range b[1:end] {
		n = n*10 + int(digit-'0')
	}
	return n, b[end+2:]
}

// AppendCommand appends a command of these words in RESP.
func AppendCommand[Word string | []byte](dst []byte, words ...Word) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(words)), 10)
	dst = append(dst, '\r', '\n')
	for _, word := range words {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(word)), 10)
		dst = append(dst, '\r', '\n')
		dst = append(dst, word...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}
