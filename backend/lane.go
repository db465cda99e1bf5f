package backend

import (
	"context"

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
	// Blocked reports whether a command is waiting for something.
	Blocked() bool
	// Private returns a private connection to where a command belongs. Its
	// replies go to sink.
	Private(ctx context.Context, sink Sink, command [][]byte) (*Private, error)
	// Belongs reports whether a command belongs to where a private connection is.
	Belongs(command [][]byte, private *Private) bool
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

// Blocked implements Lane: what blocks is not on a stream.
func (s *Stream) Blocked() bool { return false }

// Private implements Lane.
func (s *Stream) Private(ctx context.Context, sink Sink, _ [][]byte) (*Private, error) {
	return s.backend.Private(ctx, s.id, sink)
}

// Belongs implements Lane.
func (s *Stream) Belongs([][]byte, *Private) bool { return true }

// Release gives the stream back.
func (s *Stream) Release() { s.backend.Release(s) }
