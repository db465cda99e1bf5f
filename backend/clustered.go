package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/backend/cluster"
)

// DefaultClusterWait is that of Config.
const DefaultClusterWait = 5 * time.Second

const (
	// lookInterval is how often the cluster is asked how it is divided, without
	// a reason; minLookPause the least time between two looks.
	lookInterval = 5 * time.Second
	minLookPause = 50 * time.Millisecond
	// lookGrace is how long the other nodes may take when one has answered.
	lookGrace = 50 * time.Millisecond
	// maxLooks is how many nodes are asked.
	maxLooks = 8
	// unusedNode is how long a node that has no slots any more is kept.
	unusedNode = time.Minute
)

var errNoMasters = errors.New("no node has any slots")

// clustered is a Redis Cluster: its nodes, each with a Backend of its own, and
// who of them has which slots.
type clustered struct {
	backend *Backend // of the whole
	seeds   []string
	url     func(addr string) string

	now    atomic.Pointer[topology]
	wanted chan struct{} // somebody has reason to think that topology is not the newest

	looking  sync.Mutex
	lookedAt time.Time
	lookErr  error

	mu     sync.Mutex
	nodes  map[string]*node
	closed bool
}

// node is a server of the cluster.
type node struct {
	addr    string
	backend *Backend
	client  *redis.Client // to ask about the cluster
	used    time.Time     // guarded by clustered.mu
}

// topology is who has which slots. It does not change.
type topology struct {
	table    *cluster.Table
	masters  []*node
	commands cluster.Commands
}

// owner returns the node that serves a slot, or nil.
func (t *topology) owner(slot int) *node {
	if i := t.table.Owner(slot); i >= 0 {
		return t.masters[i]
	}
	return nil
}

// parseClusterURL takes redis+cluster://user:password@host:port,host:port apart,
// or rediss+cluster://. It reports false for other URLs.
func parseClusterURL(text string) (seeds []string, url func(addr string) string, ok bool) {
	scheme, rest, _ := strings.Cut(text, "://")
	plain, ok := strings.CutSuffix(scheme, "+cluster")
	if !ok {
		return nil, nil, false
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		query = "?" + query
	}
	at := strings.LastIndexByte(rest, '@') + 1
	hosts, path, _ := strings.Cut(rest[at:], "/")
	if path != "" {
		path = "/" + path
	}
	url = func(addr string) string { return plain + "://" + rest[:at] + addr + path + query }
	return strings.Split(hosts, ","), url, true
}

// newClustered checks the configuration of a cluster. b is the Backend that has
// it.
func newClustered(b *Backend, seeds []string, url func(string) string) (*clustered, error) {
	for i, seed := range seeds {
		options, _, err := parseOptions(url(seed))
		if err != nil {
			return nil, invalidURL(err)
		}
		if options.DB != 0 {
			return nil, errors.New("invalid upstream URL: a cluster has no database but 0")
		}
		seeds[i] = options.Addr
	}
	return &clustered{
		backend: b, seeds: seeds, url: url,
		wanted: make(chan struct{}, 1), nodes: make(map[string]*node),
	}, nil
}

// node returns the node at an address, which may be one that was not known.
func (c *clustered) node(addr string) (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if n := c.nodes[addr]; n != nil {
		n.used = time.Now()
		return n, nil
	}
	config := c.backend.config
	config.URL = c.url(addr)
	// Goroutines serve the clients of a cluster. What a loop reads for one of
	// those may wait for it to be woken up, for milliseconds.
	config.Loops = nil
	b, err := New(config)
	if err != nil {
		return nil, err
	}
	b.fallback, b.counters = c.backend.fallback, c.backend.counters // which nobody has asked yet
	options := *b.options
	options.MaxRetries, options.PoolSize, options.Protocol = -1, 1, 2
	options.DisableIdentity, options.Dialer = true, b.dial
	options.ReadTimeout, options.WriteTimeout = config.DialTimeout, config.DialTimeout
	n := &node{addr: addr, backend: b, client: redis.NewClient(&options), used: time.Now()}
	c.nodes[addr] = n
	return n, nil
}

// eachNode calls f for the backend of every node that is known.
func (c *clustered) eachNode(f func(*Backend)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		f(n.backend)
	}
}

// close ends all connections.
func (n *node) close() {
	n.client.Close()
	n.backend.Close()
}

// load returns the topology, and finds it out if that has not been done yet.
func (c *clustered) load() (*topology, error) {
	if t := c.now.Load(); t != nil {
		return t, nil
	}
	if err := c.look(); err != nil {
		return nil, err
	}
	return c.now.Load(), nil
}

// lookSoon has the topology be found out again.
func (c *clustered) lookSoon() {
	select {
	case c.wanted <- struct{}{}:
	default:
	}
}

// follow keeps the topology as it is until the backend is closed.
func (c *clustered) follow() {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.backend.ctx.Done():
			return
		case <-ticker.C:
		case <-c.wanted:
		}
		c.look()
		select {
		case <-c.backend.ctx.Done():
			return
		case <-time.After(minLookPause):
		}
	}
}

// look finds the topology out. Who waits while another looks gets the outcome
// of that.
func (c *clustered) look() error {
	asked := time.Now()
	c.looking.Lock()
	defer c.looking.Unlock()
	if c.lookedAt.After(asked) || c.lookErr != nil && asked.Sub(c.lookedAt) < minLookPause {
		return c.lookErr
	}
	ctx, cancel := context.WithTimeout(c.backend.ctx, c.backend.config.DialTimeout)
	defer cancel()
	err := c.update(ctx)
	c.note(err)
	c.lookedAt, c.lookErr = time.Now(), err
	return err
}

// note tells of a cluster that was lost or found.
func (c *clustered) note(err error) {
	b := c.backend
	before := b.down.Load()
	switch {
	case err != nil && before == nil && b.ctx.Err() == nil:
		b.down.Store(&err)
		b.failures.Add(1)
		b.log.Warn("cluster can't be reached", "addr", b.Addr(), "err", err)
	case err == nil && before != nil:
		b.down.Store(nil)
		b.log.Info("cluster is back", "addr", b.Addr())
	}
}

func (c *clustered) update(ctx context.Context) error {
	v, err := c.newestView(ctx)
	if err != nil {
		return err
	}
	before := c.now.Load()
	if before != nil && v.table.Equal(before.table) {
		c.closeUnused(before)
		return nil
	}
	next := &topology{table: v.table}
	if before != nil {
		next.commands = before.commands
	} else if next.commands, err = askCommands(ctx, v.node); err != nil {
		return err
	}
	for _, addr := range v.table.Masters {
		n, err := c.node(addr)
		if err != nil {
			return err
		}
		next.masters = append(next.masters, n)
	}
	c.now.Store(next)
	c.backend.log.Info("cluster is divided anew", "masters", strings.Join(v.table.Masters, " "))
	c.closeUnused(next)
	return nil
}

func askCommands(ctx context.Context, n *node) (cluster.Commands, error) {
	reply, err := n.client.Do(ctx, "COMMAND").Result()
	if err != nil {
		return nil, err
	}
	return cluster.ParseCommands(reply)
}

// view is what one node thinks of the cluster.
type view struct {
	node  *node
	table *cluster.Table
	epoch int // the greatest that the node knows of
	err   error
}

// newestView asks several nodes and returns what the one says that knows of the
// latest change.
func (c *clustered) newestView(ctx context.Context) (best view, err error) {
	addrs := c.whom()
	views := make(chan view, len(addrs))
	for _, addr := range addrs {
		c.backend.tasks.Go(func() { views <- c.ask(ctx, addr) })
	}
	var grace <-chan time.Time
	best.err = errNoMasters
	for range addrs {
		select {
		case v := <-views:
			if v.err != nil && best.table == nil {
				best.err = v.err
			}
			if v.err != nil {
				continue
			}
			if best.table == nil || v.epoch > best.epoch {
				best = v
			}
			if grace == nil {
				grace = time.After(lookGrace)
			}
		case <-grace:
			return best, best.err
		}
	}
	return best, best.err
}

// whom returns the addresses of nodes to ask: the masters and the seeds, or as
// many of them as are enough.
func (c *clustered) whom() []string {
	var addrs []string
	if t := c.now.Load(); t != nil {
		addrs = append(addrs, t.table.Masters...)
	}
	for _, seed := range c.seeds {
		known := false
		for _, addr := range addrs {
			known = known || addr == seed
		}
		if !known {
			addrs = append(addrs, seed)
		}
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs[:min(len(addrs), maxLooks)]
}

// ask returns the view of the node at an address.
func (c *clustered) ask(ctx context.Context, addr string) view {
	n, err := c.node(addr)
	if err != nil {
		return view{err: err}
	}
	pipe := n.client.Pipeline()
	info, slots := pipe.ClusterInfo(ctx), pipe.Do(ctx, "CLUSTER", "SLOTS")
	if _, err := pipe.Exec(ctx); err != nil {
		return view{err: err}
	}
	v := view{node: n}
	if _, text, ok := strings.Cut(info.Val(), "cluster_current_epoch:"); ok {
		fmt.Sscan(text, &v.epoch)
	}
	if v.table, v.err = cluster.ParseTable(slots.Val(), addr); v.err == nil && len(v.table.Masters) == 0 {
		v.err = errNoMasters
	}
	return v
}

// closeUnused closes nodes that have had no slots for a while.
func (c *clustered) closeUnused(t *topology) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range t.masters {
		n.used = time.Now()
	}
	for addr, n := range c.nodes {
		if time.Since(n.used) > unusedNode {
			delete(c.nodes, addr)
			c.backend.tasks.Go(n.close)
		}
	}
}

// close ends all that the cluster has.
func (c *clustered) close() {
	c.mu.Lock()
	c.closed = true
	nodes := c.nodes
	c.nodes = make(map[string]*node)
	c.mu.Unlock()
	for _, n := range nodes {
		n.close()
	}
}
