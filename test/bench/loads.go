package main

import (
	"fmt"
	"slices"
	"strings"

	"cellproxy/commands"
)

// random is what redis-benchmark replaces by a random number of 12 digits.
const random = "__rand_int__"

// load is a command that is sent over and over, with a random key.
type load struct {
	name, about string
	words       []string
	keys        int  // how many keys there are
	refused     bool // most are refused
	// prepare makes of the command the one that the key, number i, needs before,
	// or nil. What it leaves stays until it is deleted.
	prepare func(i int, words []string) []string
}

var loads = []load{
	{
		name: "CL.THROTTLE", about: "A limiter call that is admitted: `CL.THROTTLE key 1000000 1 100` on 100,000 keys that are there.",
		words: strings.Fields("CL.THROTTLE bench:throttle:" + random + " 1000000 1 100"), keys: 100_000,
		prepare: func(_ int, words []string) []string { return words },
	},
	{
		name: "LIMITED", about: "A limiter call that is refused nine times in ten: the same on 10,000 keys, of which 9,000 have nothing " +
			"left and get one unit back every 100 s.",
		words: strings.Fields("CL.THROTTLE bench:limited:" + random + " 1000000 1 100"), keys: 10_000, refused: true,
		prepare: func(i int, words []string) []string {
			if i%10 == 0 {
				return nil
			}
			return append(words, "1000001")
		},
	},
	{
		name: "GET", about: "`GET key` on 100,000 keys with 3 bytes each.",
		words: strings.Fields("GET bench:string:" + random), keys: 100_000,
		prepare: set,
	},
	{
		name: "SET", about: "`SET key xxx` on 100,000 keys that are there.",
		words: strings.Fields("SET bench:string:" + random + " xxx"), keys: 100_000,
		prepare: set,
	},
}

func set(_ int, words []string) []string {
	return []string{"SET", words[1], "xxx"}
}

func parseLoads(list string) ([]load, error) {
	var chosen []load
	for _, name := range parseWords(list) {
		found := false
		for _, l := range loads {
			if strings.EqualFold(l.name, name) {
				chosen, found = append(chosen, l), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no load %q", name)
		}
	}
	if len(chosen) == 0 {
		return nil, errNone
	}
	return chosen, nil
}

// prepared is how many keys are to be prepared.
func (l load) prepared() int {
	if l.prepare == nil {
		return 0
	}
	return l.keys
}

// wordsOf is the command with key number i.
func (l load) wordsOf(i int) []string {
	words := slices.Clone(l.words)
	words[1] = strings.ReplaceAll(words[1], random, fmt.Sprintf("%012d", i))
	return words
}

// limiter reports whether the load is one of the limiter commands.
func (l load) limiter() bool {
	return commands.Lookup([]byte(l.words[0])) != nil
}
