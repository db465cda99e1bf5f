package wire

import (
	"bufio"
	"slices"
	"strconv"
	"strings"
)

// Sorted returns a whole reply with the elements of every aggregate in it in
// order of their bytes, keys and values of maps alike. It serves to compare
// replies whose order means nothing: Redis lists its commands as they lie in a
// hash table, which changes while it is being rehashed.
func Sorted(reply string) string {
	head, body, _ := strings.Cut(reply, "\r\n")
	if body == "" || !strings.ContainsRune("*~>%|", rune(head[0])) {
		return reply
	}
	n, _ := strconv.Atoi(head[1:])
	var elements []string
	for r := bufio.NewReader(strings.NewReader(body)); ; {
		var b strings.Builder
		if readReply(r, &b) != nil {
			break
		}
		elements = append(elements, Sorted(b.String()))
	}
	if len(elements) < n {
		return reply
	}
	slices.Sort(elements)
	return head + "\r\n" + strings.Join(elements, "")
}
