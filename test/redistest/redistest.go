// Package redistest starts real Redis servers for tests.
//
//	redis := redistest.Start(t, redistest.Options{})
//	redis.Client(t).Set(ctx, "key", "value", 0)
//
// A server listens on a unix socket in a directory of its own, persists
// nothing, and is gone when the test ends; what it logged is shown if the test
// failed. It can be killed, frozen and restarted, and its clock can be set.
package redistest

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"cellproxy/test/certs"
	"cellproxy/test/wire"
)

// Options say what is special about a server. The zero value is a plain one.
type Options struct {
	// Args are further arguments of redis-server. They override the package's.
	Args []string
	// Password is what clients must give. URL has it.
	Password string
	// User is who clients must be, with the Password; URL has it. The default
	// user is there too, without a password.
	User string
	// TLS is an authority whose certificates the server and its clients must show
	// each other. URL has the files. The server listens on a free loopback port,
	// with TLS alone.
	TLS *certs.Authority
	// TCP makes the server listen on a free loopback port too, and URL name it.
	TCP bool
	// FakeClock makes the server's wall clock stand still at what SetClock
	// says. It needs a C compiler.
	FakeClock bool

	clustered bool // to be a node of a cluster
	watched   bool // by a sentinel, which URL names
}

// firstPort is the least of 10,000 ports to choose from. A node of a cluster uses
// the one 10,000 above too.
func (o *Options) firstPort() int {
	if o.clustered {
		return 10000
	}
	return 20000
}

// Server is a running redis-server.
type Server struct {
	t       testing.TB
	options Options
	dir     string
	port    int // 0 without TCP
	clock   *clock
	pair    certs.Pair
	process *process // nil when stopped
	output  output

	sentinel *sentinel // that watches it, or nil
}

// topology is what the servers are that a test wants nothing special of:
// go test ./test -args -topology tls.
var topology = flag.String("topology", "", "tls: servers want certificates; acl: and cellproxy is a user of its own; sentinel: they are watched; none: plain servers")

// setTopology makes of the options of a plain server what the flag says.
func setTopology(t testing.TB, options *Options) {
	t.Helper()
	plain := !options.TCP && !options.clustered && options.TLS == nil && options.Password == ""
	if !plain {
		return
	}
	switch *topology {
	case "sentinel":
		options.TCP, options.watched = true, true
	case "acl":
		options.User, options.Password = "app", "secret"
		options.TLS = certs.New(t)
	case "tls":
		options.TLS = certs.New(t)
	}
}

// Start starts a redis-server and waits until it answers. The test fails if
// redis-server is not installed.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not installed: `apt-get install redis-server`, `brew install redis`, " +
			"or https://redis.io/docs/latest/operate/oss_and_stack/install/")
	}
	setTopology(t, &options)
	s := &Server{t: t, options: options, dir: shortTempDir(t)}
	if options.FakeClock {
		s.clock = newClock(t, s.dir)
	}
	if options.TLS != nil {
		s.pair = options.TLS.Issue(t, "redis")
	}
	t.Cleanup(s.cleanUp)
	s.start()
	if options.watched {
		s.sentinel = startSentinel(t, s.port, 1)
	}
	return s
}

// shortTempDir returns a temporary directory whose path is short enough for
// unix sockets, which the paths of t.TempDir may not be.
func shortTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *Server) cleanUp() {
	if s.process != nil {
		s.process.kill()
	}
	if s.t.Failed() {
		s.t.Logf("redis-server said:\n%s", s.output.String())
	}
}

// Socket returns the path of the server's unix socket.
func (s *Server) Socket() string {
	return filepath.Join(s.dir, "redis.sock")
}

// Addr returns the server's TCP address. It needs Options.TCP or Options.TLS.
func (s *Server) Addr() string {
	s.t.Helper()
	if s.port == 0 {
		s.t.Fatal("redistest: the server has no TCP address without Options.TCP or Options.TLS")
	}
	return fmt.Sprintf("127.0.0.1:%d", s.port)
}

// URL returns the server's address as redis://, rediss:// or unix:// URL, or that of
// the sentinel that knows it.
func (s *Server) URL() string {
	u := url.URL{Scheme: "unix", Path: s.Socket()}
	switch {
	case s.sentinel != nil:
		u = url.URL{Scheme: "redis+sentinel", Host: s.sentinel.addr(), Path: masterName}
	case s.options.TLS != nil:
		query := url.Values{"tls_ca": {s.options.TLS.File}, "tls_cert": {s.pair.Cert}, "tls_key": {s.pair.Key}}
		u = url.URL{Scheme: "rediss", Host: s.Addr(), RawQuery: query.Encode()}
	case s.options.TCP:
		u = url.URL{Scheme: "redis", Host: s.Addr()}
	}
	if s.options.Password != "" {
		u.User = url.UserPassword(s.options.User, s.options.Password)
	}
	return u.String()
}

// password is that of the default user.
func (s *Server) password() string {
	if s.options.User != "" {
		return ""
	}
	return s.options.Password
}

// Client returns a client that never sends a command twice and is closed when
// the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.Socket(), Password: s.password(),
		Protocol: 2, MaxRetries: -1,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// Dial opens a raw connection.
func (s *Server) Dial(t testing.TB) *wire.Conn {
	t.Helper()
	return wire.Dial(t, "unix", s.Socket())
}

// Clock returns the server's wall clock, in nanoseconds since the epoch. It needs
// Options.FakeClock.
func (s *Server) Clock() int64 {
	s.t.Helper()
	if s.clock == nil {
		s.t.Fatal("redistest: Clock needs Options.FakeClock")
	}
	return s.clock.get()
}

// SetClock sets the server's wall clock, in nanoseconds since the epoch. It
// needs Options.FakeClock.
func (s *Server) SetClock(unixNanos int64) {
	s.t.Helper()
	if s.clock == nil {
		s.t.Fatal("redistest: SetClock needs Options.FakeClock")
	}
	s.clock.set(unixNanos)
}
