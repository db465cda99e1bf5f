// Package cluster knows how a Redis Cluster divides its keys among its nodes:
// the slot of a key, which node serves a slot, and which words of a command
// are keys. It makes no connections.
package cluster

import "bytes"

// Slots is how many hash slots a cluster has.
const Slots = 1 << 14

// Slot returns the hash slot of a key: that of the part in braces if there is
// one, so that users can put keys together.
func Slot(key []byte) int {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for _, c := range key {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return int(crc % Slots)
}

// crcTable is that of CRC-16/XMODEM: polynomial 0x1021, not reflected.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
