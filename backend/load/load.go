// Package load puts a load on anything that speaks the Redis protocol, and
// measures how it bears it: so many clients, each with a pipeline of commands
// under way, which sends the next one when all its replies are there.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cellproxy/backend"
)

// Load is what to send, and to whom.
type Load struct {
	// URL is a redis://, rediss:// or unix:// URL as backend.Config has it.
	URL string
	// Command is the words to send. In each, Random becomes a random number.
	Command []string
	// EvalSHA has a limiter command sent as what cellproxy makes of it, to a
	// Redis without a cellproxy.
	EvalSHA bool
	// Keys is how many numbers there are for Random.
	Keys int
	// Clients is the number of connections, Pipeline of commands under way on
	// each.
	Clients, Pipeline int
	// Requests is how many requests are sent. 0: as many as Duration allows.
	Requests int64
	Duration time.Duration
	// Timeout is how long connecting and each pipeline may take.
	Timeout time.Duration
}

var errNothing = errors.New("nothing was measured")

// run is a load while it is put on.
type run struct {
	Load
	template *template
	to       *backend.Endpoint
	left     atomic.Int64 // requests that nobody has taken yet
	done     atomic.Int64 // requests that are answered
	stopped  atomic.Bool
	tally    tally
}

// Check returns what is wrong with a load, as far as that can be told without
// connecting.
func (l Load) Check() error {
	if _, err := newTemplate(l); err != nil {
		return err
	}
	_, err := backend.ParseEndpoint(l.URL, l.Timeout)
	return err
}

// Run connects, then puts on the load, until it is done or ctx ends; what is
// under way by then is waited for. Meanwhile progress is told several times a
// second how many requests are answered. An error says that nothing could be
// measured, or that ctx has ended; what failed of the requests is in the report.
func Run(ctx context.Context, l Load, progress func(done int64)) (Report, error) {
	template, err := newTemplate(l)
	if err != nil {
		return Report{}, err
	}
	to, err := backend.ParseEndpoint(l.URL, l.Timeout)
	if err != nil {
		return Report{}, err
	}
	r := &run{Load: l, template: template, to: to}
	clients, err := r.connect(ctx)
	defer func() {
		for _, c := range clients {
			c.conn.Close()
		}
	}()
	if err != nil {
		return Report{}, err
	}
	r.left.Store(l.Requests)
	took := r.put(ctx, clients, progress)
	report := r.tally.report(l, took)
	if err := ctx.Err(); err != nil {
		return report, err
	}
	if report.Requests == 0 && len(report.Errors) == 0 {
		return report, errNothing
	}
	return report, nil
}

// dialsAtOnce is fewer than a listening socket keeps waiting.
const dialsAtOnce = 64

// connect makes all connections. If one fails, there is no load.
func (r *run) connect(ctx context.Context) ([]*client, error) {
	clients := make([]*client, r.Clients)
	errs := make([]error, r.Clients)
	room := make(chan struct{}, dialsAtOnce)
	var dialling sync.WaitGroup
	for i := range clients {
		dialling.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			clients[i], errs[i] = r.newClient(ctx)
		})
	}
	dialling.Wait()
	var made []*client
	for _, c := range clients {
		if c != nil {
			made = append(made, c)
		}
	}
	for _, err := range errs {
		if err != nil {
			return made, fmt.Errorf("cannot connect client %d of %d: %w", len(made)+1, r.Clients, err)
		}
	}
	return made, nil
}

// put lets the clients send, and returns how long it took.
func (r *run) put(ctx context.Context, clients []*client, progress func(done int64)) time.Duration {
	began := time.Now()
	if r.Requests == 0 {
		timer := time.AfterFunc(r.Duration, func() { r.stopped.Store(true) })
		defer timer.Stop()
	}
	defer context.AfterFunc(ctx, func() { r.stopped.Store(true) })()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		var sending sync.WaitGroup
		for _, c := range clients {
			sending.Go(func() { r.send(c) })
		}
		sending.Wait()
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			progress(r.done.Load())
		case <-finished:
			took := time.Since(began)
			progress(r.done.Load())
			return took
		}
	}
}

// send has a client send pipelines while there are requests to take.
func (r *run) send(c *client) {
	for {
		n := r.take()
		if n == 0 {
			return
		}
		answered, err := c.pipeline(n, r.Timeout)
		r.tally.add(answered)
		r.done.Add(int64(len(answered)))
		if err != nil {
			r.tally.lose(n-len(answered), err)
			return
		}
	}
}

// take returns how many requests a client may send now.
func (r *run) take() int {
	if r.stopped.Load() {
		return 0
	}
	if r.Requests == 0 {
		return r.Pipeline
	}
	left := r.left.Add(-int64(r.Pipeline))
	return max(0, r.Pipeline+int(min(left, 0)))
}
