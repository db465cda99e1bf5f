package backend

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// mergeInfo is the INFO of the first master, with the keys of all.
func (o *op) mergeInfo() []byte {
	if failure := o.failure(); failure != nil {
		return failure
	}
	var sums []keyspace
	for i := range o.parts {
		sums = addKeyspaces(sums, o.parts[i].reply)
	}
	first := o.parts[0].reply
	var b strings.Builder
	for line := range strings.Lines(string(behindLine(first[:len(first)-2]))) {
		if _, ok := parseKeyspace(line); !ok {
			b.WriteString(line)
		}
		if strings.HasSuffix(strings.TrimSpace(line), "# Keyspace") { // behind txt: in RESP3
			for _, sum := range sums {
				b.WriteString(sum.String())
			}
		}
	}
	return fmt.Appendf(nil, "%c%d\r\n%s\r\n", first[0], b.Len(), b.String())
}

// keyspace is what a line of INFO says about a database.
type keyspace struct {
	name                   string
	keys, expires, meanTTL int
}

func (k keyspace) String() string {
	return fmt.Sprintf("%s:keys=%d,expires=%d,avg_ttl=%d\r\n", k.name, k.keys, k.expires, k.meanTTL)
}

// parseKeyspace reads a line like db0:keys=3,expires=1,avg_ttl=5.
func parseKeyspace(line string) (k keyspace, ok bool) {
	name, fields, ok := strings.Cut(strings.TrimSpace(line), ":")
	if !ok || !strings.HasPrefix(name, "db") || !strings.HasPrefix(fields, "keys=") {
		return k, false
	}
	k.name = name
	for _, field := range strings.Split(fields, ",") {
		key, value, _ := strings.Cut(field, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "keys":
			k.keys = n
		case "expires":
			k.expires = n
		case "avg_ttl":
			k.meanTTL = n
		}
	}
	return k, true
}

// addKeyspaces adds what an INFO says of databases.
func addKeyspaces(sums []keyspace, info []byte) []keyspace {
	for line := range bytes.Lines(info) {
		if k, ok := parseKeyspace(string(line)); ok {
			sums = addKeyspace(sums, k)
		}
	}
	return sums
}

func addKeyspace(sums []keyspace, k keyspace) []keyspace {
	for i := range sums {
		s := &sums[i]
		if s.name != k.name {
			continue
		}
		if total := s.expires + k.expires; total > 0 {
			s.meanTTL = (s.meanTTL*s.expires + k.meanTTL*k.expires) / total
		}
		s.keys += k.keys
		s.expires += k.expires
		return sums
	}
	return append(sums, k)
}
