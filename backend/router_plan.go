package backend

import "cellproxy/backend/cluster"

// planFunc makes the parts of an op out of its words, where that is more than
// sending it to the slot of its first key. It reports false if it is no more.
type planFunc func(r *router, o *op, words [][]byte) bool

// planTable has the plans by the upper-case name of the command, with that of
// the subcommand behind a blank where they differ.
type planTable map[string]planFunc

var plans = planTable{
	"MGET":   splitKeys(1, (*op).mergeValues),
	"MSET":   splitKeys(2, (*op).mergeSame),
	"DEL":    splitKeys(1, (*op).mergeSum),
	"UNLINK": splitKeys(1, (*op).mergeSum),
	"EXISTS": splitKeys(1, (*op).mergeSum),
	"TOUCH":  splitKeys(1, (*op).mergeSum),

	"DBSIZE":    everywhere((*op).mergeSum),
	"KEYS":      everywhere((*op).mergeLists),
	"SCAN":      planScan,
	"RANDOMKEY": everywhere((*op).mergeAny),
	"FLUSHALL":  everywhere((*op).mergeSame),
	"FLUSHDB":   everywhere((*op).mergeSame),
	"INFO":      everywhere((*op).mergeInfo),

	"SCRIPT LOAD":      everywhere((*op).mergeSame),
	"SCRIPT FLUSH":     everywhere((*op).mergeSame),
	"SCRIPT EXISTS":    everywhere((*op).mergeLeast),
	"SCRIPT KILL":      everywhere((*op).mergeOne),
	"FUNCTION LOAD":    everywhere((*op).mergeSame),
	"FUNCTION DELETE":  everywhere((*op).mergeSame),
	"FUNCTION FLUSH":   everywhere((*op).mergeSame),
	"FUNCTION RESTORE": everywhere((*op).mergeSame),
	"FUNCTION KILL":    everywhere((*op).mergeOne),

	"PUBSUB CHANNELS":      everywhere((*op).mergeNames),
	"PUBSUB SHARDCHANNELS": everywhere((*op).mergeNames),
	"PUBSUB NUMSUB":        everywhere((*op).mergeCounts),
	"PUBSUB SHARDNUMSUB":   everywhere((*op).mergeCounts),

	"CONFIG SET":       everywhere((*op).mergeSame),
	"CONFIG RESETSTAT": everywhere((*op).mergeSame),
	"CONFIG REWRITE":   everywhere((*op).mergeSame),
	"ACL SETUSER":      everywhere((*op).mergeSame),
	"ACL DELUSER":      everywhere((*op).mergeSame),
	"ACL LOAD":         everywhere((*op).mergeSame),
	"ACL SAVE":         everywhere((*op).mergeSame),
	"SLOWLOG RESET":    everywhere((*op).mergeSame),
	"LATENCY RESET":    everywhere((*op).mergeSum),
	"MEMORY PURGE":     everywhere((*op).mergeSame),
	"SAVE":             everywhere((*op).mergeSame),
	"BGSAVE":           everywhere((*op).mergeSame),
	"BGREWRITEAOF":     everywhere((*op).mergeSame),
}

// splits are the commands of the table that are split by keys.
var splits = map[string]bool{"MGET": true, "MSET": true, "DEL": true, "UNLINK": true, "EXISTS": true, "TOUCH": true}

// withSubcommands are the commands of the table whose subcommands differ.
var withSubcommands = map[string]bool{
	"SCRIPT": true, "FUNCTION": true, "PUBSUB": true, "CONFIG": true, "ACL": true,
	"SLOWLOG": true, "LATENCY": true, "MEMORY": true,
}

// longestPlan bounds the names in the table.
const longestPlan = 32

// find returns the plan of a command, or nil.
func (t planTable) find(words [][]byte) planFunc {
	var name [longestPlan]byte
	n := upper(name[:], words[0])
	if !withSubcommands[string(name[:n])] {
		return t[string(name[:n])]
	}
	if len(words) == 1 {
		return nil
	}
	name[n] = ' '
	n += 1 + upper(name[n+1:], words[1])
	return t[string(name[:n])]
}

// upper puts a word in upper case into dst, as far as there is room, and returns
// how much that is.
func upper(dst, word []byte) int {
	n := copy(dst, word)
	for i, c := range dst[:n] {
		if 'a' <= c && c <= 'z' {
			dst[i] = c - ('a' - 'A')
		}
	}
	return n
}

// splitKeys splits a command whose words are all keys, each with what belongs to
// it, by slots. each is how many words that are.
func splitKeys(each int, merge func(*op) []byte) planFunc {
	return func(r *router, o *op, words [][]byte) bool {
		keys := words[1:]
		if len(keys) == 0 || len(keys)%each != 0 || inOneSlot(keys, each) {
			return false
		}
		at := make(map[int]int)
		var slots []int
		var shares [][][]byte
		for i := 0; i < len(keys); i += each {
			slot := cluster.Slot(keys[i])
			n, known := at[slot]
			if !known {
				n = len(shares)
				at[slot] = n
				slots, shares = append(slots, slot), append(shares, [][]byte{words[0]})
			}
			shares[n] = append(shares[n], keys[i:i+each]...)
			o.order = append(o.order, n)
		}
		o.merge = merge
		o.parts = make([]part, len(shares))
		for i := range shares {
			o.parts[i] = part{op: o, slot: slots[i], bytes: cluster.AppendCommand(nil, shares[i]...)}
		}
		return true
	}
}

func inOneSlot(keys [][]byte, each int) bool {
	slot := cluster.Slot(keys[0])
	for i := each; i < len(keys); i += each {
		if cluster.Slot(keys[i]) != slot {
			return false
		}
	}
	return true
}

// everywhere sends a command to every master.
func everywhere(merge func(*op) []byte) planFunc {
	return func(r *router, o *op, _ [][]byte) bool {
		o.merge = merge
		o.parts = make([]part, len(r.topology.masters))
		for i := range o.parts {
			o.parts[i] = part{op: o, slot: allSlots, home: r.topology.table.First[i], bytes: o.request.Bytes}
		}
		return true
	}
}
