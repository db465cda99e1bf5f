package backend

import (
	"cellproxy/backend/poll"
	"cellproxy/commands"
)

// Lane is a session's way upstream: a Stream that it shares with others, or a
// way of its own among the nodes of a cluster.
type Lane interface {
	// Submit sends requests upstream in order; sink, always the same, will be
	// given a reply to each, in the same order. See Stream.
	Submit(sink Sink, requests []Request, loop *poll.Loop, at *Place) error
	// Ready reports whether Submit would not wait.
	Ready(at Place) bool
	// Connect makes a connection if there is none.
	Connect() error
	// NeedsAuth reports whether the upstream refuses commands until the client
	// authenticates.
	NeedsAuth() bool
	// Instead returns the reply to a limiter command that could not be sent, or
	// nil if the client is to be given the error.
	Instead(limiter []byte) []byte
	// Denied returns the reply to a call that the upstream would refuse, if that is
	// known. The caller vouches that nothing it has submitted and not been
	// answered may change the key.
	Denied(call *commands.Call) (reply []byte, ok bool)
	// Release gives the lane back. Its sink hears no more of it.
	Release()
}

// Lane returns a session's way upstream as id, for use until its Release.
func (b *Backend) Lane(id Identity) Lane {
	if b.cluster != nil {
		return newRouter(b.cluster, id)
	}
	return b.Acquire(id)
}

// Clustered reports whether the upstream is a cluster.
func (b *Backend) Clustered() bool { return b.cluster != nil }

// Release gives the stream back.
func (s *Stream) Release() { s.backend.Release(s) }
