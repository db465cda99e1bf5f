package backend

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Client returns a client for questions of one's own to the upstream. It has
// one connection, made and greeted as those of the sessions are, and sends
// nothing twice. The error is a *ReplyError when the upstream refused. Whoever
// asks for a client closes it.
func (b *Backend) Client(ctx context.Context) (*redis.Client, error) {
	dial := func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, b.config.DialTimeout)
		defer cancel()
		conn, _, err := b.connect(ctx, b.Default())
		return conn, err
	}
	first, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	var taken atomic.Bool
	return redis.NewClient(&redis.Options{
		Network: b.options.Network, Addr: b.options.Addr,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if taken.CompareAndSwap(false, true) {
				return first, nil
			}
			return dial(ctx)
		},
		DialTimeout: b.config.DialTimeout, ReadTimeout: b.config.Timeout, WriteTimeout: b.config.Timeout,
		DialerRetries: 1, MaxRetries: -1, PoolSize: 1, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true,
	}), nil
}

// Nodes returns a backend for each master of the cluster that the upstream is, or
// none if it is no cluster. They are closed with b.
func (b *Backend) Nodes() ([]*Backend, error) {
	if b.cluster == nil {
		return nil, nil
	}
	topology, err := b.cluster.load()
	if err != nil {
		return nil, err
	}
	nodes := make([]*Backend, len(topology.masters))
	for i, master := range topology.masters {
		nodes[i] = master.backend
	}
	return nodes, nil
}
