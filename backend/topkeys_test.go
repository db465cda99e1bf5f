package backend

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestTopKeysFindsTheHot has a few keys among many of one call each.
func TestTopKeysFindsTheHot(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var top TopKeys
	now := time.Now()
	for i := range 20_000 {
		if hot := random.IntN(20); hot < 4 {
			top.add(fmt.Append(nil, "hot", hot), hot == 3, now)
		} else {
			top.add(fmt.Append(nil, "cold", i), false, now)
		}
	}
	if n := len(top.keys); n > maxTopKeys {
		t.Errorf("%d keys are kept, want at most %d", n, maxTopKeys)
	}
	found := make(map[string]bool)
	for _, k := range top.Top(4, func(k KeyCount) float64 { return k.Calls }) {
		found[k.Key] = true
		if least := 500.0 * keySample; k.Calls < least || k.Calls-k.Excess > 2*least*2 {
			t.Errorf("%s: %+v, want about %v", k.Key, k, 1000*keySample)
		}
	}
	for i := range 4 {
		if !found[fmt.Sprint("hot", i)] {
			t.Errorf("hot%d is not among the hottest: %v", i, found)
		}
	}
	limited := top.Top(4, func(k KeyCount) float64 { return k.Limited })
	if len(limited) != 1 || limited[0].Key != "hot3" {
		t.Errorf("limited are %v, want hot3", limited)
	}
}

// TestTopKeysForgets sees that old calls go, and that long keys are cut.
func TestTopKeysForgets(t *testing.T) {
	var top TopKeys
	now := time.Now()
	top.add([]byte(strings.Repeat("x", 1000)), true, now)
	for key := range top.keys {
		if len(key) != longestTopKey {
			t.Errorf("%d bytes of a key are kept, want %d", len(key), longestTopKey)
		}
	}
	top.add([]byte("new"), false, now.Add(TopKeysHalfLife*10))
	if len(top.keys) != 1 || top.keys["new"] == nil {
		t.Errorf("kept %v, want the new one", top.keys)
	}
}
