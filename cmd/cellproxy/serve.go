package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cellproxy/backend"
	"cellproxy/backend/poll"
	"cellproxy/proxy"
)

const defaultListen = "127.0.0.1:6380"

// serveConfig is what serve is told by flags, the environment and a file.
type serveConfig struct {
	listen          []string
	socketPerm      string
	tlsCert         string
	tlsKey          string
	tlsClientCA     string
	tlsMinVersion   string
	upstream        string
	dialTimeout     time.Duration
	upstreamTimeout time.Duration
	clusterWait     time.Duration
	onFailure       string
	denyCache       bool
	writeTimeout    time.Duration
	shutdownTimeout time.Duration
	maxClients      int
	outputLimit     int
	pubsubLimit     string
	idleTimeout     time.Duration
	refuse          []string
	requirepass     string
	usersFile       string
	unprotected     bool
	admin           string
	adminPprof      bool
	adminOpen       bool
	adminKeys       bool
	pidFile         string
	logLevel        string
	logFormat       string
	file            string
	printOnly       bool

	flags   *pflag.FlagSet    // with their values
	origins map[string]string // of the values that are not defaults
}

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve Redis clients",
		Long: `Serve Redis clients until SIGTERM or SIGINT.

Without --upstream the data lives in a small store inside the process and is
gone with it: good for a first try. Every flag can also be set by an environment
variable, CELLPROXY_LISTEN for --listen and so on, and in a YAML file given as
--config. Flags win over the environment, and that over the file.`,
		Example: `  cellproxy serve
  cellproxy serve --upstream redis://127.0.0.1:6379
  cellproxy serve --listen 127.0.0.1:7000,unix:///run/cellproxy.sock --upstream redis://127.0.0.1:6379
  cellproxy serve --listen 127.0.0.1:7000 --upstream rediss://user:password@redis.example:6379/2
  cellproxy serve --config cellproxy.yaml --print-config`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if config.printOnly {
				return config.print(cmd.OutOrStdout())
			}
			return serve(cmd.Context(), cmd.Flags(), config)
		},
	}
	new(serveConfig).addFlags(cmd.Flags())
	return cmd
}

func (c *serveConfig) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringSliceVar(&c.listen, "listen", []string{defaultListen}, "address to listen on: host:port, tls://host:port, or unix:///path/to.sock; may be repeated")
	flags.StringVar(&c.socketPerm, "unix-socket-perm", "", "permissions of unix sockets, in octal (default: as the umask leaves them)")
	flags.StringVar(&c.tlsCert, "tls-cert", "", "file of the certificate that TLS clients are shown, in PEM, with those it rests on")
	flags.StringVar(&c.tlsKey, "tls-key", "", "file of its key, in PEM")
	flags.StringVar(&c.tlsClientCA, "tls-client-ca", "", "file of certificates, in PEM: TLS clients must show one that rests on them")
	flags.StringVar(&c.tlsMinVersion, "tls-min-version", "1.2", "oldest TLS that clients may speak: 1.2 or 1.3")
	flags.StringVar(&c.upstream, "upstream", "", "the Redis behind: redis://, rediss:// or unix:// URL, redis+cluster://host:port,host:port, or redis+sentinel://host:port,host:port/name (default: a store inside the process)")
	flags.DurationVar(&c.dialTimeout, "dial-timeout", backend.DefaultDialTimeout, "how long connecting upstream may take")
	flags.DurationVar(&c.upstreamTimeout, "upstream-timeout", backend.DefaultTimeout, "how long the upstream may leave commands unanswered before it is held to be dead; blocking commands are exempt")
	flags.DurationVar(&c.clusterWait, "cluster-wait", backend.DefaultClusterWait, "how long a command may wait for a cluster that can't run it, while slots move or a replica takes its master's place")
	flags.StringVar(&c.onFailure, "on-upstream-failure", string(backend.PolicyError), "what limiter commands answer while the upstream is away: error, allow, deny, or local (limits kept in this process)")
	flags.BoolVar(&c.denyCache, "deny-cache", false, "answer requests that are over their limit without asking the upstream, as long as it tells of no change to their keys: see the README")
	flags.DurationVar(&c.writeTimeout, "write-timeout", proxy.DefaultWriteTimeout, "how long a client may take no bytes of its replies")
	flags.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long clients may take to finish at shutdown")
	flags.IntVar(&c.maxClients, "max-clients", proxy.DefaultMaxClients, "how many clients may be connected")
	flags.IntVar(&c.outputLimit, "client-output-limit", proxy.DefaultOutputLimit, "bytes of finished replies that may wait for a client to read them")
	flags.StringVar(&c.pubsubLimit, "pubsub-output-limit", "32mb 8mb 60", "how much may wait for a subscriber to read it: at most, and for longer than so many seconds; 0: any")
	flags.DurationVar(&c.idleTimeout, "idle-timeout", 0, "how long a client may be idle, unless it is subscribed, blocked or monitoring; 0: for ever")
	flags.StringVar(&c.requirepass, "requirepass", "", "password that clients must give (user default); better set by CELLPROXY_REQUIREPASS")
	flags.StringVar(&c.usersFile, "users-file", "", "file of users who may connect, a line each: name password, or name #sha256")
	flags.StringSliceVar(&c.refuse, "refuse", proxy.DefaultRefuse, "commands to refuse; DEBUG and SHUTDOWN may be worth adding")
	flags.StringVar(&c.pidFile, "pid-file", "", "file to write the process id to, by whoever listens: SIGUSR2 has a new process take over")
	flags.BoolVar(&c.unprotected, "unprotected", false, "allow listening beyond loopback, where anybody who can connect is served")
	flags.StringVar(&c.admin, "admin", "", "address to listen on for people: a status page, metrics, health and readiness over HTTP (default: none)")
	flags.BoolVar(&c.adminPprof, "admin-pprof", false, "serve the profiles of Go under /debug/pprof/ of --admin, too")
	flags.BoolVar(&c.adminKeys, "admin-keys", true, "show the keys that limiter commands are called with most, on --admin")
	flags.BoolVar(&c.adminOpen, "admin-unprotected", false, "allow --admin beyond loopback, where anybody can read it")
	flags.StringVar(&c.logLevel, "log-level", "info", "what to log: debug, info, warn or error, and what is worse")
	flags.StringVar(&c.logFormat, "log-format", logText, "how to log: text or json")
	flags.StringVar(&c.file, "config", "", "YAML file of settings, which have the names of these flags")
	flags.BoolVar(&c.printOnly, "print-config", false, "print all settings as such a file, without passwords, and exit")
}

// validate checks everything that can be checked before anything is opened.
func (c *serveConfig) validate() error {
	for name, d := range map[string]time.Duration{
		"dial-timeout": c.dialTimeout, "upstream-timeout": c.upstreamTimeout, "cluster-wait": c.clusterWait,
		"write-timeout": c.writeTimeout, "shutdown-timeout": c.shutdownTimeout,
		"max-clients": time.Duration(c.maxClients), "client-output-limit": time.Duration(c.outputLimit),
	} {
		if d <= 0 {
			return fmt.Errorf("invalid --%s: %w", name, errNotPositive)
		}
	}
	if c.idleTimeout < 0 {
		return errors.New("invalid --idle-timeout: must not be negative")
	}
	if _, err := parseOutputLimits(c.pubsubLimit); err != nil {
		return fmt.Errorf("invalid --pubsub-output-limit: %w", err)
	}
	if _, err := backend.ParsePolicy(c.onFailure); err != nil {
		return fmt.Errorf("invalid --on-upstream-failure: %w", err)
	}
	if c.denyCache && c.upstream == "" {
		return errors.New("--deny-cache needs an --upstream")
	}
	if _, err := parseLevel(c.logLevel); err != nil {
		return fmt.Errorf("invalid --log-level: %w", err)
	}
	if c.logFormat != logText && c.logFormat != logJSON {
		return fmt.Errorf("invalid --log-format: %q is neither %s nor %s", c.logFormat, logText, logJSON)
	}
	if _, err := parsePerm(c.socketPerm); err != nil {
		return fmt.Errorf("invalid --unix-socket-perm: %w", err)
	}
	if _, ok := tlsVersions[c.tlsMinVersion]; !ok {
		return fmt.Errorf("invalid --tls-min-version: %q is neither 1.2 nor 1.3", c.tlsMinVersion)
	}
	if err := c.validateAdmin(); err != nil {
		return err
	}
	return c.validateListen()
}

// service is a running proxy.
type service struct {
	config   *serveConfig   // that it was started with
	given    *pflag.FlagSet // on the command line
	log      *slog.Logger
	level    slog.LevelVar
	upstream *backend.Backend
	server   *proxy.Server
	upgrade  *upgrade
	hangups  chan os.Signal

	stopAdmin       func() // may be called again
	shutdownTimeout time.Duration
}

// serve runs the proxy until ctx ends.
func serve(ctx context.Context, given *pflag.FlagSet, config *serveConfig) error {
	s := &service{config: config, given: given, hangups: make(chan os.Signal, 1)}
	signal.Notify(s.hangups, syscall.SIGHUP) // before anybody can know of the process: unexpected, it ends one
	defer signal.Stop(s.hangups)
	s.log = newLogger(os.Stderr, config.logFormat, &s.level)
	settings, err := config.settings()
	if err != nil {
		return usageError{err}
	}
	loops, err := poll.Start()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.log.Warn("no event loop, every client has a goroutine", "err", err)
	}
	defer loops.Close()
	s.upstream, err = backend.New(backend.Config{
		URL: config.upstream, DialTimeout: config.dialTimeout, Timeout: config.upstreamTimeout, ClusterWait: config.clusterWait, DenyCache: config.denyCache, Loops: loops, Logger: s.log,
	})
	if err != nil {
		return usageError{err}
	}
	defer s.upstream.Close()
	if s.upgrade, err = newUpgrade(config.pidFile, config.open, s.log); err != nil {
		return err
	}
	defer s.upgrade.close()
	s.server = proxy.New(proxy.Config{Backend: s.upstream, ListenFunc: s.upgrade.listen, Loops: loops, Version: version(), Logger: s.log,
		TopKeys: config.admin != "" && config.adminKeys})
	s.apply(config, settings)
	for _, addr := range config.listen {
		if err := s.server.Listen(addr); err != nil {
			return err
		}
	}
	if err := s.startAdmin(); err != nil {
		return err
	}
	defer s.stopAdmin()
	if err := s.upstream.Check(); err == nil {
		s.log.Info("upstream is ready", "addr", s.upstream.Addr())
	}
	if err := s.upgrade.ready(); err != nil {
		return err
	}
	for _, endpoint := range s.server.Endpoints() {
		s.log.Info("listening", "addr", endpoint.String())
	}
	return s.run(ctx)
}

// run serves until ctx ends or a new process has taken over, then lets the
// clients finish. On SIGHUP it reloads.
func (s *service) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.server.Serve() }()
	for wait := true; wait; {
		select {
		case err := <-served:
			return err
		case <-s.hangups:
			s.reload()
		case <-ctx.Done():
			wait = false
		case <-s.upgrade.replaced():
			s.stopAdmin() // who looks is to see the one that clients come to
			wait = false
		}
	}
	s.log.Info("shutting down")
	s.upgrade.close()
	ctx, cancel := context.WithTimeout(context.Background(), s.shutdownTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.log.Warn("clients were cut off", "after", s.shutdownTimeout)
	}
	return <-served
}
