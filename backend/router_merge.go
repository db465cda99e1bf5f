package backend

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// The functions of this file make one reply of those to an op's parts. An error
// of any part is the reply.

// failure returns the first error among the replies, or nil.
func (o *op) failure() []byte {
	for i := range o.parts {
		if reply := o.parts[i].reply; reply[0] == '-' {
			return reply
		}
	}
	return nil
}

// mergeSame is for replies that are all the same.
func (o *op) mergeSame() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	return o.parts[0].reply
}

// mergeOne is for what is a success if it is one anywhere.
func (o *op) mergeOne() []byte {
	for i := range o.parts {
		if reply := o.parts[i].reply; reply[0] != '-' {
			return reply
		}
	}
	return o.failure()
}

// mergeSum adds numbers.
func (o *op) mergeSum() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	sum := 0
	for i := range o.parts {
		sum += count(o.parts[i].reply)
	}
	return fmt.Appendf(nil, ":%d\r\n", sum)
}

// count reads the number in the first line of a reply.
func count(reply []byte) int {
	n, _ := strconv.Atoi(string(reply[1:bytes.IndexByte(reply, '\r')]))
	return n
}

// behindLine returns what is behind the first line of a reply.
func behindLine(reply []byte) []byte {
	return reply[bytes.IndexByte(reply, '\n')+1:]
}

// mergeLists puts arrays one behind the other.
func (o *op) mergeLists() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	total := 0
	for i := range o.parts {
		total += count(o.parts[i].reply)
	}
	list := fmt.Appendf(nil, "%c%d\r\n", o.parts[0].reply[0], total)
	for i := range o.parts {
		list = append(list, behindLine(o.parts[i].reply)...)
	}
	return list
}

// mergeNames is mergeLists for elements that may be in several.
func (o *op) mergeNames() []byte {
	list := o.mergeLists()
	if list[0] == '-' {
		return list
	}
	seen := make(map[string]bool)
	var names []byte
	for rest := behindLine(list); len(rest) > 0; {
		n := ReplyLength(rest)
		if name := string(rest[:n]); !seen[name] {
			seen[name] = true
			names = append(names, name...)
		}
		rest = rest[n:]
	}
	return append(fmt.Appendf(nil, "%c%d\r\n", list[0], len(seen)), names...)
}

// mergeCounts adds the numbers behind names that are the same in all arrays.
func (o *op) mergeCounts() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	sums := o.parts[0].reply
	for i := range o.parts[1:] {
		merged := fmt.Appendf(nil, "%c%d\r\n", sums[0], count(sums))
		a, b := behindLine(sums), behindLine(o.parts[i+1].reply)
		for len(a) > 0 && len(b) > 0 {
			n, m := ReplyLength(a), ReplyLength(b)
			merged = append(merged, a[:n]...)
			a, b = a[n:], b[m:]
			merged = fmt.Appendf(merged, ":%d\r\n", count(a)+count(b))
			a, b = behindLine(a), behindLine(b)
		}
		sums = merged
	}
	return sums
}

// mergeValues puts the elements of arrays in the order of the keys.
func (o *op) mergeValues() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	rest := make([][]byte, len(o.parts))
	for i := range o.parts {
		rest[i] = behindLine(o.parts[i].reply)
	}
	values := fmt.Appendf(nil, "*%d\r\n", len(o.order))
	for _, from := range o.order {
		n := ReplyLength(rest[from])
		values = append(values, rest[from][:n]...)
		rest[from] = rest[from][n:]
	}
	return values
}

// mergeLeast takes the least of the numbers at each place of arrays.
func (o *op) mergeLeast() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	least := o.parts[0].reply
	for i := range o.parts[1:] {
		merged := fmt.Appendf(nil, "*%d\r\n", count(least))
		a, b := behindLine(least), behindLine(o.parts[i+1].reply)
		for len(a) > 0 && len(b) > 0 {
			merged = fmt.Appendf(merged, ":%d\r\n", min(count(a), count(b)))
			a, b = behindLine(a), behindLine(b)
		}
		least = merged
	}
	return least
}

// mergeAny takes any reply that is not null.
func (o *op) mergeAny() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	for _, i := range rand.Perm(len(o.parts)) {
		if reply := o.parts[i].reply; reply[0] != '_' && !bytes.HasPrefix(reply, []byte("$-1")) {
			return reply
		}
	}
	return o.parts[0].reply
}
