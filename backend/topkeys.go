package backend

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// maxTopKeys is how many keys are kept account of.
	maxTopKeys = 128
	// longestTopKey is how many bytes of a key are kept.
	longestTopKey = 64
	// TopKeysHalfLife is after how long a call counts half.
	TopKeysHalfLife = 10 * time.Second
	// keySample is of how many calls one is looked at, on average.
	keySample = 16
)

// TopKeys estimates which keys limiter commands are called with most. It looks at
// a few of the calls and keeps account of a bounded number of keys, as the
// Space-Saving algorithm does: a key that is new takes the place, and the count,
// of the one called least. Calls long ago count less. The zero value is empty. Its
// methods are safe for concurrent use.
type TopKeys struct {
	mu     sync.Mutex
	keys   map[string]*KeyCount
	halved time.Time
}

// KeyCount is an estimate of the calls with a key in the last seconds.
type KeyCount struct {
	Key     string // its first 64 bytes
	Calls   float64
	Limited float64 // calls that were
	Excess  float64 // by how much Calls may be too large
}

// add counts a call as the keySample that it stands for.
func (t *TopKeys) add(key []byte, wasLimited bool, now time.Time) {
	key = key[:min(len(key), longestTopKey)]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decay(now)
	k := t.keys[string(key)]
	if k == nil {
		k = t.place()
		k.Key = string(key)
		t.keys[k.Key] = k
	}
	k.Calls += keySample
	if wasLimited {
		k.Limited += keySample
	}
}

// place returns a place for a new key.
func (t *TopKeys) place() *KeyCount {
	if len(t.keys) < maxTopKeys {
		return new(KeyCount)
	}
	var least *KeyCount
	for _, k := range t.keys {
		if least == nil || k.Calls < least.Calls {
			least = k
		}
	}
	delete(t.keys, least.Key)
	least.Limited, least.Excess = 0, least.Calls
	return least
}

// decay halves the counts as often as it is time to, and forgets who has none.
func (t *TopKeys) decay(now time.Time) {
	if t.keys == nil {
		t.keys, t.halved = make(map[string]*KeyCount), now
	}
	for ; now.Sub(t.halved) >= TopKeysHalfLife && len(t.keys) > 0; t.halved = t.halved.Add(TopKeysHalfLife) {
		for key, k := range t.keys {
			k.Calls, k.Limited, k.Excess = k.Calls/2, k.Limited/2, k.Excess/2
			if k.Calls < 1 {
				delete(t.keys, key)
			}
		}
	}
	if len(t.keys) == 0 {
		t.halved = now
	}
}

// Top returns the n keys that by tells the largest numbers of.
func (t *TopKeys) Top(n int, by func(KeyCount) float64) []KeyCount {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decay(time.Now())
	top := make([]KeyCount, 0, len(t.keys))
	for _, k := range t.keys {
		if by(*k) > 0 {
			top = append(top, *k)
		}
	}
	slices.SortFunc(top, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(a.Key, b.Key))
	})
	return top[:min(n, len(top))]
}

// keySampling says of which calls to look at the key: with chance, so that a
// pattern of calls does not hide some.
type keySampling struct{ skip int }

func (s *keySampling) next() bool {
	if s.skip > 0 {
		s.skip--
		return false
	}
	s.skip = rand.IntN(2*keySample - 1)
	return true
}
