package proxy

import (
	"bytes"
	"strconv"
	"time"

	"github.com/tidwall/redcon"
)

// maxPause is the longest pause that is kept account of. The upstream may take
// longer ones.
const maxPause = 365 * 24 * time.Hour

// pause handles CLIENT PAUSE and CLIENT UNPAUSE. While the upstream lets commands
// wait, every session has a connection of its own, so that none stands behind
// the waiting ones of others.
func (s *session) pause(cmd redcon.Command) {
	ask := func() ([]byte, error) { return s.ask(s.stream, cmd.Raw) }
	if s.server.config.Backend.Paused() {
		if !s.goPrivate() || s.settleOn() != nil {
			return
		}
		ask = func() ([]byte, error) { return s.askPrivate(cmd.Raw) }
	}
	reply, err := ask()
	if err != nil {
		return
	}
	if bytes.Equal(reply, replyOK) {
		s.server.config.Backend.Pause(pauseTime(cmd.Args[2:]))
	}
	s.reply(reply)
}

// pauseTime returns how long the pause is that the upstream has agreed to, 0 if
// that was to end it.
func pauseTime(args [][]byte) time.Duration {
	if len(args) == 0 {
		return 0
	}
	ms, err := strconv.ParseInt(string(args[0]), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(ms, maxPause.Milliseconds())) * time.Millisecond
}

// stepAside gives the session a connection of its own if the upstream lets
// commands wait. It reports false when there is none to be had; the command at
// hand has then been answered.
func (s *session) stepAside() bool {
	return !s.server.config.Backend.Paused() || s.sticky || s.goPrivate()
}

// askPrivate is ask on the private connection, which owes nothing.
func (s *session) askPrivate(command []byte) ([]byte, error) {
	s.out.mu.Lock()
	private := s.out.private
	s.out.mu.Unlock()
	return s.askBy(private.Submit, command)
}
