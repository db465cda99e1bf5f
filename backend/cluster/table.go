package cluster

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strconv"
)

var errSlots = errors.New("not a reply to CLUSTER SLOTS")

// Table says which master serves which slot. It does not change.
type Table struct {
	// Masters are the addresses of those that serve slots, in the order of the
	// first that each serves.
	Masters []string
	// First is the first slot of each.
	First []int
	// Fingerprint tells tables apart, most likely.
	Fingerprint uint32

	owners [Slots]int16 // indexes in Masters; -1: nobody serves the slot
}

// Owner returns the index in Masters of the one that serves a slot, or -1.
func (t *Table) Owner(slot int) int {
	return int(t.owners[slot])
}

// Equal reports whether two tables say the same. There may be none.
func (t *Table) Equal(other *Table) bool {
	if t == nil || other == nil {
		return t == other
	}
	return t.owners == other.owners && slices.Equal(t.Masters, other.Masters)
}

// slotRange is an entry of CLUSTER SLOTS.
type slotRange struct {
	first, last int
	master      string
}

// ParseTable reads the reply to CLUSTER SLOTS that was got from origin, a host
// and port. A node that does not know its own address leaves it out.
func ParseTable(reply any, origin string) (*Table, error) {
	entries, ok := reply.([]any)
	if !ok {
		return nil, errSlots
	}
	ranges := make([]slotRange, len(entries))
	for i, entry := range entries {
		var err error
		if ranges[i], err = parseRange(entry, origin); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(ranges, func(a, b slotRange) int { return a.first - b.first })
	return newTable(ranges), nil
}

func parseRange(entry any, origin string) (r slotRange, err error) {
	fields, ok := entry.([]any)
	if !ok || len(fields) < 3 {
		return r, errSlots
	}
	first, firstOK := fields[0].(int64)
	last, lastOK := fields[1].(int64)
	master, masterOK := fields[2].([]any)
	if !firstOK || !lastOK || !masterOK || first < 0 || last < first || last >= Slots || len(master) < 2 {
		return r, errSlots
	}
	host, _ := master[0].(string) // or null
	port, ok := master[1].(int64)
	if !ok || port < 1 || port > 65535 {
		return r, fmt.Errorf("%w: a node with port %v", errSlots, master[1])
	}
	return slotRange{int(first), int(last), Addr(host, strconv.FormatInt(port, 10), origin)}, nil
}

// Addr returns the address of a host and port of which a node, at origin, has
// told: it means its own host by none, or by ?.
func Addr(host, port, origin string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(origin)
	}
	return net.JoinHostPort(host, port)
}

func newTable(ranges []slotRange) *Table {
	t := &Table{}
	for slot := range t.owners {
		t.owners[slot] = -1
	}
	sum := fnv.New32a()
	indexes := make(map[string]int16)
	for _, r := range ranges {
		index, known := indexes[r.master]
		if !known {
			index = int16(len(t.Masters))
			indexes[r.master] = index
			t.Masters = append(t.Masters, r.master)
			t.First = append(t.First, r.first)
		}
		for slot := r.first; slot <= r.last; slot++ {
			t.owners[slot] = index
		}
		fmt.Fprintln(sum, r.first, r.last, r.master)
	}
	t.Fingerprint = sum.Sum32()
	return t
}
