package proxy

import (
	"math"
	"time"
)

// OutputLimits are how many bytes may wait for a client to read them before it
// is disconnected: Hard at once, Soft for longer than SoftTime.
type OutputLimits struct {
	Hard, Soft int
	SoftTime   time.Duration
}

// Unlimited stands for no limit.
const Unlimited = math.MaxInt

// DefaultSubscriberLimits are Redis's: 32 MiB, and 8 MiB for a minute.
var DefaultSubscriberLimits = OutputLimits{Hard: 32 << 20, Soft: 8 << 20, SoftTime: time.Minute}

// unreadLimit sees to it that a client keeps the limits.
type unreadLimit struct {
	*OutputLimits
	since time.Time // above Soft
}

// bounded reports whether there is an end to what may wait.
func (l *unreadLimit) bounded() bool { return l.Hard != Unlimited || l.Soft != Unlimited }

// exceeded reports whether so many bytes are too many.
func (l *unreadLimit) exceeded(unread int, now time.Time) bool {
	switch {
	case unread > l.Hard:
		return true
	case unread <= l.Soft:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = now
	default:
		return now.Sub(l.since) > l.SoftTime
	}
	return false
}

// listen notes that the client waits for what comes without being asked for,
// messages or something else.
func (o *output) listen(messages bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listening = true
	o.subscribed = o.subscribed || messages
}

// listenNoMore notes that there is nothing of that kind any more.
func (o *output) listenNoMore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listening, o.subscribed = false, false
}
