package main

import (
	"strings"

	"cellproxy/commands"
)

// beginning is the moment 0 of the pictures, in microseconds since the epoch.
const beginning = 1_800_000_000_000_000

// decision is what became of one request.
type decision struct {
	at       int64 // milliseconds
	admitted bool
}

// decide has a limiter decide on requests, beginning without a state.
func decide(command string, requests []int64) ([]decision, error) {
	words := strings.Fields(command)
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	var call commands.Call
	if err := commands.Lookup(args[0]).Parse(args, &call); err != nil {
		return nil, err
	}
	var state commands.State
	decisions := make([]decision, len(requests))
	for i, at := range requests {
		now := beginning + 1000*at
		if state.Expired(now) {
			state = commands.State{}
		}
		next, reply, err := call.Model(state, now)
		if err != nil {
			return nil, err
		}
		state, decisions[i] = next, decision{at, reply[0] == 0}
	}
	return decisions, nil
}

// admittedWithin returns how many were admitted in the window that ends with
// each decision.
func admittedWithin(window int64, decisions []decision) []int {
	sums := make([]int, len(decisions))
	for i, last := range decisions {
		for _, d := range decisions[:i+1] {
			if d.admitted && d.at > last.at-window {
				sums[i]++
			}
		}
	}
	return sums
}
