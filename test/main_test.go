// Package test holds the tests that see cellproxy from outside: as a process
// between real clients and real Redis servers.
package test

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"cellproxy/test/proxytest"
)

func TestMain(m *testing.M) {
	os.Exit(proxytest.Main(m))
}

// seedFlag repeats a random test: go test ./test -run TestName -args -seed N.
var seedFlag = flag.Uint64("seed", 0, "seed of the random tests, 0 for another one each time")

// newRand returns the random numbers of a test, and notes how to have them
// again for the case that the test fails.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -args -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
