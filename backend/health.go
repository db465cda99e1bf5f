package backend

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pause between two looks at a dead upstream doubles from the first to the
// second of these.
const (
	minProbePause = 20 * time.Millisecond
	maxProbePause = 250 * time.Millisecond
)

// Down returns why the upstream is held to be dead, or nil while it is alive.
// It is found dead by whoever can't connect or hears nothing; from then on
// everybody is refused at once and only the probe tries, until it has found the
// upstream alive.
func (b *Backend) Down() error {
	if reason := b.down.Load(); reason != nil {
		return *reason
	}
	return nil
}

// Failures returns how many times the upstream has been found dead.
func (b *Backend) Failures() int64 {
	return b.failures.Load()
}

// Policy returns how limiter commands are answered while the upstream can't.
func (b *Backend) Policy() Policy {
	return *b.fallback.policy.Load()
}

// SetPolicy changes that.
func (b *Backend) SetPolicy(policy Policy) {
	b.fallback.policy.Store(&policy)
}

// failed notes that the upstream is dead. Refusing a connection is no sign of
// death.
func (b *Backend) failed(err error) {
	if isReplyError(err) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.down.CompareAndSwap(nil, &err) {
		return
	}
	b.failures.Add(1)
	b.log.Warn("upstream is down", "addr", b.Addr(), "err", err, "limiters", string(b.Policy()))
	b.tasks.Go(b.probe)
}

// probe looks for the upstream until it is back.
func (b *Backend) probe() {
	began := time.Now()
	for pause := minProbePause; ; pause = min(2*pause, maxProbePause) {
		if err := b.look(); err == nil || isReplyError(err) {
			break
		}
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
	b.log.Info("upstream is back", "addr", b.Addr(), "after", time.Since(began).Round(time.Millisecond))
	b.down.Store(nil)
	b.fallback.forget()
}

// look connects to the upstream and has it answer.
func (b *Backend) look() error {
	ctx, cancel := context.WithTimeout(b.ctx, b.config.DialTimeout)
	defer cancel()
	conn, _, err := b.connect(ctx, b.Default())
	if err != nil {
		return err
	}
	return conn.Close()
}
