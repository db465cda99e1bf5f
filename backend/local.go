package backend

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"cellproxy/commands"
)

const (
	// maxLocalBytes bounds the limits kept in the process.
	maxLocalBytes = 64 << 20
	// localOverhead is about what a limit takes besides its key and value.
	localOverhead = 256
	// longKey is the length beyond which a key is kept as its hash.
	longKey = 128
)

// localLimits are limits kept in the process while the upstream is away. When
// they come to too much, those not used for the longest time go: to be
// forgotten is to be idle.
type localLimits struct {
	mu     sync.Mutex
	states *simplelru.LRU[localKey, commands.State]
	size   int
	most   int
}

type localKey struct {
	db  int
	key string
}

func newLocalLimits(most int) *localLimits {
	l := &localLimits{most: most}
	// The number of entries follows from their size.
	states, err := simplelru.NewLRU(most/localOverhead, func(k localKey, s commands.State) {
		l.size -= localSize(k, s)
	})
	if err != nil {
		panic(err) // most is too small to hold anything
	}
	l.states = states
	return l
}

func localSize(k localKey, s commands.State) int {
	return len(k.key) + len(s.Value) + localOverhead
}

// run takes a step of a limiter.
func (l *localLimits) run(db int, call *commands.Call, nowMicros int64) ([]int64, error) {
	key := localKey{db: db, key: string(call.Key())}
	if len(key.key) > longKey {
		sum := sha256.Sum256(call.Key())
		key.key = key.key[:longKey] + string(sum[:]) // longer than any other
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state, _ := l.states.Get(key)
	next, reply, err := call.Model(state, nowMicros)
	if err != nil {
		return nil, err
	}
	l.states.Remove(key)
	if next.Exists {
		l.size += localSize(key, next)
		l.states.Add(key, next)
	}
	for l.size > l.most {
		l.states.RemoveOldest()
	}
	return reply, nil
}

func (l *localLimits) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states.Purge()
}
