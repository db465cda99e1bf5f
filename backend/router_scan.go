package backend

import (
	"bytes"
	"fmt"
	"strconv"

	"cellproxy/backend/cluster"
)

// The cursor of a SCAN over all nodes is the cursor at a node, a mark of how the
// cluster is divided, and which node it is: a cursor means nothing at another
// node.
const (
	scanPlaceBits = 10
	scanMarkBits  = 10
	scanBits      = scanPlaceBits + scanMarkBits
)

var (
	scanChanged = []byte("-ERR the cluster has been divided anew since this SCAN began: start again from 0\r\n")
	scanTooMuch = []byte("-ERR the cluster is too large for SCAN\r\n")
)

// scanned is what a SCAN at one node is a part of.
type scanned struct {
	place  int // which node
	places int // how many there are
	mark   uint64
}

func (t *topology) scanMark() uint64 {
	return uint64(t.table.Fingerprint) % (1 << scanMarkBits)
}

// planScan sends SCAN to the node that its cursor says.
func planScan(r *router, o *op, words [][]byte) bool {
	if len(words) < 2 {
		return false
	}
	cursor, err := strconv.ParseUint(string(words[1]), 10, 64)
	if err != nil {
		return false // for a node to say
	}
	place := int(cursor % (1 << scanPlaceBits))
	mark := cursor >> scanPlaceBits % (1 << scanMarkBits)
	o.scan = scanned{place, len(r.topology.masters), r.topology.scanMark()}
	p := r.planOne(o, allSlots)
	if cursor != 0 && (mark != o.scan.mark || place >= o.scan.places) {
		p.slot = noSlot
		p.bytes = cluster.AppendCommand(nil, []byte("PING"))
		o.merge = func(*op) []byte { return scanChanged }
		return true
	}
	p.home, p.fixed = r.topology.table.First[place], true
	o.merge = (*op).mergeScan
	words[1] = strconv.AppendUint(nil, cursor>>scanBits, 10)
	p.bytes = cluster.AppendCommand(nil, words...)
	return true
}

// mergeScan makes the cursor that a node has answered one over all nodes.
func (o *op) mergeScan() []byte {
	reply := o.parts[0].reply
	if reply[0] != '*' {
		return reply
	}
	text := behindLine(behindLine(reply))
	end := bytes.IndexByte(text, '\r')
	cursor, err := strconv.ParseUint(string(text[:end]), 10, 64)
	if err != nil || cursor >= 1<<(64-scanBits) || o.scan.places > 1<<scanPlaceBits {
		return scanTooMuch
	}
	place := o.scan.place
	if cursor == 0 {
		place++
	}
	next := "0"
	if place < o.scan.places {
		next = strconv.FormatUint(cursor<<scanBits|o.scan.mark<<scanPlaceBits|uint64(place), 10)
	}
	return append(fmt.Appendf(nil, "*2\r\n$%d\r\n%s", len(next), next), text[end:]...)
}
