// Package backend is the upstream side of the proxy: it makes connections to
// the Redis behind it (or to a store inside the process), keeps the ordered
// streams that sessions share and the private connections they borrow, and
// sees to it that the limiter scripts are there. It is the only package that
// knows go-redis.
package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/backend/poll"
)

// Defaults of Config.
const (
	DefaultDialTimeout = time.Second
	DefaultTimeout     = time.Second
)

// idleStream is how long the stream of an identity nobody uses is kept.
const idleStream = time.Minute

var errTimeout = errors.New("no reply in time")

// Config says where the upstream is. The zero value is the embedded store.
type Config struct {
	// URL is a redis://, rediss:// or unix:// URL with user, password and
	// database; with rediss:// the query may name the files tls_ca, tls_cert and
	// tls_key, and a tls_server_name, or skip_verify. Or it is redis+cluster:// or
	// rediss+cluster:// with several host:port, separated by commas, some nodes of
	// a Redis Cluster; or redis+sentinel:// or rediss+sentinel:// with those of
	// sentinels, and the master's name before the database. Empty: an embedded
	// store that lives as long as the Backend.
	URL string
	// DialTimeout bounds connecting and greeting. Default 1 s.
	DialTimeout time.Duration
	// Timeout is how long the upstream may owe replies on a connection and be
	// silent there before it is held to be dead. Blocking commands are exempt.
	// Default 1 s.
	Timeout time.Duration
	// ClusterWait is how long a command that a cluster has not run, because its
	// slot moves or its node is away, may wait to be sent again. Default 5 s.
	ClusterWait time.Duration
	// Policy is how limiter commands are answered while the upstream can't.
	// Default PolicyError.
	Policy Policy
	// DenyCache keeps refusals: see Lane.Denied. Not of a cluster.
	DenyCache bool
	// Now tells the proxy's own time, in nanoseconds since any moment. Default:
	// the process's monotonic clock.
	Now func() int64
	// Loops read from the upstream where they can. None: goroutines do.
	Loops *poll.Loops
	// Logger is told of connections made and lost. Default slog.Default().
	Logger *slog.Logger
}

// Identity is whom the upstream takes a connection for, and how it answers.
// Sessions of the same identity share a stream.
type Identity struct {
	User, Password string
	DB             int
	Protocol       int // 2 or 3
}

// Backend is the upstream. Its methods are safe for concurrent use.
type Backend struct {
	config   Config
	options  *redis.Options
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	embedded *embedded
	cluster  *clustered // or nil
	sentinel *sentinels // or nil
	log      *slog.Logger
	fallback *fallback
	denials  *denials              // nil: none are kept
	down     atomic.Pointer[error] // why the upstream is held to be dead
	failures atomic.Int64
	counters *counters // of all nodes, in a cluster

	pausedUntil atomic.Int64 // ns since the epoch

	ctx    context.Context // ends when the backend is closed
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu        sync.Mutex
	streams   map[Identity]*Stream
	private   map[*Private]bool
	idle      map[Identity][]*Private
	warming   map[Identity]int
	idleCount int // of idle
	watched   map[*link]*watch
	closed    bool
}

// New checks the configuration. It does not connect; use Check to find out
// whether the upstream is there.
func New(config Config) (*Backend, error) {
	b := &Backend{
		config:   config,
		log:      config.Logger,
		counters: new(counters),
		streams:  make(map[Identity]*Stream),
		private:  make(map[*Private]bool),
		idle:     make(map[Identity][]*Private),
		warming:  make(map[Identity]int),
		watched:  make(map[*link]*watch),
	}
	if b.log == nil {
		b.log = slog.Default()
	}
	if b.config.Policy == "" {
		b.config.Policy = PolicyError
	}
	b.fallback = newFallback(b.config.Policy)
	if b.config.DialTimeout <= 0 {
		b.config.DialTimeout = DefaultDialTimeout
	}
	if b.config.Timeout <= 0 {
		b.config.Timeout = DefaultTimeout
	}
	if b.config.ClusterWait <= 0 {
		b.config.ClusterWait = DefaultClusterWait
	}
	if b.config.Now == nil {
		started := time.Now()
		b.config.Now = func() int64 { return int64(time.Since(started)) }
	}
	if config.URL == "" {
		b.embedded = newEmbedded()
		b.options = &redis.Options{Network: "memory", Addr: "embedded store"}
		b.dial = b.embedded.dial
	} else if err := b.parseURL(config.URL); err != nil {
		return nil, err
	}
	if config.DenyCache && b.cluster != nil {
		return nil, errors.New("refusals of a cluster can't be kept")
	}
	if config.DenyCache {
		b.denials = new(denials)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.tasks.Go(b.watchdog)
	b.tasks.Go(b.retireIdle)
	if b.cluster != nil {
		b.tasks.Go(b.cluster.follow)
	}
	if b.sentinel != nil {
		b.tasks.Go(b.sentinel.follow)
	}
	return b, nil
}

func (b *Backend) parseURL(text string) error {
	seeds, nodeURL, isCluster := parseClusterURL(text)
	if isCluster {
		var err error
		if b.cluster, err = newClustered(b, seeds, nodeURL); err != nil {
			return err
		}
		text = nodeURL(seeds[0])
	}
	sentinel, hasSentinels, err := parseSentinelURL(text)
	if err != nil {
		return invalidURL(err)
	}
	if hasSentinels {
		text = sentinel.master(sentinel.addrs[0])
	}
	options, files, err := parseOptions(text)
	if err != nil {
		return invalidURL(err)
	}
	options.DialTimeout = b.config.DialTimeout
	b.options = options
	b.dial = newDialer(options, files)
	if hasSentinels {
		b.sentinel = newSentinels(b, sentinel)
	}
	return nil
}

// invalidURL is the error of a URL that can't be parsed, without the URL, which
// may hold a password.
func invalidURL(err error) error {
	if wrong := new(url.Error); errors.As(err, &wrong) {
		err = wrong.Err
	}
	return fmt.Errorf("invalid upstream URL: %w", err)
}

// Addr returns the upstream's address for people to read.
func (b *Backend) Addr() string {
	if b.cluster != nil {
		return strings.Join(b.cluster.seeds, ",")
	}
	if b.sentinel != nil {
		return b.sentinel.name + " of " + strings.Join(b.sentinel.addrs, ",")
	}
	return b.options.Addr
}

// Default is the identity of a session that has said nothing yet.
func (b *Backend) Default() Identity {
	return Identity{User: b.options.Username, Password: b.options.Password, DB: b.options.DB, Protocol: 2}
}

// Check connects to the upstream and returns the error if that fails.
func (b *Backend) Check() error {
	l := b.Lane(b.Default())
	defer l.Release()
	return l.Connect()
}

// open makes a connection and greets the upstream on it.
func (b *Backend) open(ctx context.Context, id Identity, shared bool, lost func(*link, error)) (*link, error) {
	conn, welcome, err := b.connect(ctx, id)
	if err != nil {
		return nil, err
	}
	repairs := &repairer{timeout: b.config.Timeout, dial: func(ctx context.Context) (net.Conn, error) {
		conn, _, err := b.connect(ctx, id)
		return conn, err
	}}
	l := &link{
		conn: conn, counters: b.counters, repairs: repairs, welcome: welcome, shared: shared, lost: lost, denials: b.denials, db: id.DB,
		instead: func(limiter []byte) []byte { return b.fallback.answer(id.DB, limiter) },
	}
	own := b.Default()
	if id.User != own.User || id.Password != own.Password {
		l.welcome.batches = false // who knows on which keys
	}
	if b.sentinel != nil {
		l.suspect = b.sentinel.suspect
	}
	l.writeLater = l.writeNow
	if shared {
		l.lent = newLent(b.config.Loops.Next(), conn)
		l.cache = b.denials.of(id)
	}
	l.start()
	return l, nil
}

func (b *Backend) connect(ctx context.Context, id Identity) (conn net.Conn, w welcome, err error) {
	if b.sentinel != nil {
		return b.sentinel.connect(ctx, id)
	}
	return b.connectTo(ctx, b.options.Addr, id)
}

func (b *Backend) connectTo(ctx context.Context, addr string, id Identity) (conn net.Conn, w welcome, err error) {
	conn, err = b.dial(ctx, b.options.Network, addr)
	if err != nil {
		return nil, w, err
	}
	w, err = handshake(ctx, conn, b.Default(), id)
	if err != nil {
		return nil, w, err
	}
	return conn, w, nil
}

// Acquire returns the stream of an identity for use until Release.
func (b *Backend) Acquire(id Identity) *Stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.streams[id]
	if s == nil {
		s = &Stream{backend: b, id: id, closed: b.closed, cache: b.keepDenials(id)}
		b.streams[id] = s
	}
	s.refs++
	return s
}

// Release gives back what Acquire returned. A stream nobody uses is kept a
// while if it is connected.
func (b *Backend) Release(s *Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.refs--
	if s.refs > 0 || s.id == b.Default() {
		return
	}
	if s.link.Load() == nil {
		delete(b.streams, s.id)
		b.dropDenialsLocked(s.cache)
		return
	}
	time.AfterFunc(idleStream, func() { b.retire(s) })
}

// retire closes a stream that still nobody uses.
func (b *Backend) retire(s *Stream) {
	b.mu.Lock()
	unused := s.refs == 0 && b.streams[s.id] == s
	if unused {
		delete(b.streams, s.id)
	}
	b.mu.Unlock()
	if unused {
		s.close()
	}
}

func (b *Backend) addPrivate(p *Private) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		p.link.fail(errClosed)
	}
	if !p.link.failed() {
		b.private[p] = true
	}
}

func (b *Backend) removePrivate(p *Private) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.private, p)
	b.removeIdle(p)
}

// CloseIdle closes the connections that nobody uses.
func (b *Backend) CloseIdle() {
	b.mu.Lock()
	var unused []*Stream
	for id, s := range b.streams {
		if s.refs == 0 && id != b.Default() {
			unused = append(unused, s)
			delete(b.streams, id)
		}
	}
	b.mu.Unlock()
	for _, s := range unused {
		s.close()
	}
	b.closeIdlePrivate(time.Now())
}

// Close ends every connection and waits until all is quiet. It may be called
// twice.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	streams := b.streams
	b.streams = make(map[Identity]*Stream)
	private := make([]*Private, 0, len(b.private))
	for p := range b.private {
		private = append(private, p)
	}
	b.mu.Unlock()
	b.cancel()
	for _, s := range streams {
		s.close()
	}
	for _, p := range private {
		p.link.close()
	}
	if b.cluster != nil {
		b.cluster.close()
	}
	if b.sentinel != nil {
		b.sentinel.close()
	}
	b.tasks.Wait()
	if b.embedded != nil {
		b.embedded.close()
	}
	return nil
}

func isReplyError(err error) bool {
	var refused *ReplyError
	return errors.As(err, &refused)
}
