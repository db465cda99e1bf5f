package proxy

import (
	"sync"
	"time"
)

// longestLook is the most time between two looks for idle clients.
const longestLook = 5 * time.Second

// idleness is since when a client has been idle, as far as was seen.
type idleness struct {
	reads  uint32
	writes uint32
	since  time.Time
}

// disconnectIdle begins to disconnect clients that have been idle for too long.
// Looking at all of them now and then costs less than a timer for each. What it
// returns ends that.
func (s *Server) disconnectIdle() (stop func()) {
	stopped := make(chan struct{})
	var task sync.WaitGroup
	task.Go(func() {
		for {
			select {
			case <-time.After(s.untilLook()):
				s.cutIdle(time.Now())
			case <-stopped:
				return
			}
		}
	})
	return func() {
		close(stopped)
		task.Wait()
	}
}

// untilLook is the time between two looks.
func (s *Server) untilLook() time.Duration {
	timeout := s.settings.Load().IdleTimeout
	if timeout <= 0 {
		return longestLook
	}
	return min(max(timeout/8, time.Millisecond), longestLook)
}

// cutIdle ends the sessions of clients that are idle since too long before now.
func (s *Server) cutIdle(now time.Time) {
	timeout := s.settings.Load().IdleTimeout
	if timeout <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.isIdle(now) && now.Sub(c.idle.since) > timeout {
			c.session.out.cut()
		}
	}
}

// isIdle reports whether nothing has come from the client or gone to it since
// the last look, and nothing is on its way.
func (c *clientConn) isIdle(now time.Time) bool {
	reads := c.guard.reads.Load()
	writes, quiet := c.session.out.isQuiet()
	if quiet && reads == c.idle.reads && writes == c.idle.writes && !c.idle.since.IsZero() {
		return true
	}
	c.idle = idleness{reads, writes, now}
	return false
}

// isQuiet returns how often something was written, and reports whether nothing
// is under way for the client: neither something to write, nor a reply, nor what
// comes without being asked for.
func (o *output) isQuiet() (writes uint32, quiet bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes, o.owed == 0 && len(o.buf) == 0 && !o.writing && !o.listening
}
