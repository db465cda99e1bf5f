package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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

// serveConfig is what the flags of serve say.
type serveConfig struct {
	listen          string
	upstream        string
	dialTimeout     time.Duration
	upstreamTimeout time.Duration
	onFailure       string
	writeTimeout    time.Duration
	shutdownTimeout time.Duration
	maxClients      int
	outputLimit     int
	refuse          []string
	requirepass     string
	usersFile       string
	unprotected     bool
	pidFile         string
}

func newServe() *cobra.Command {
	var config serveConfig
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve Redis clients",
		Long: `Serve Redis clients until SIGTERM or SIGINT.

Without --upstream the data lives in a small store inside the process and is
gone with it: good for a first try. Every flag can also be set by an environment
variable: CELLPROXY_LISTEN for --listen, and so on; flags win.`,
		Example: `  cellproxy serve
  cellproxy serve --upstream redis://127.0.0.1:6379
  cellproxy serve --listen 127.0.0.1:7000 --upstream rediss://user:password@redis.example:6379/2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := environment(cmd.Flags()); err != nil {
				return err
			}
			if err := config.validate(); err != nil {
				return usageError{err}
			}
			return serve(cmd.Context(), config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		},
	}
	config.addFlags(cmd.Flags())
	return cmd
}

func (c *serveConfig) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&c.listen, "listen", defaultListen, "address to listen on: host:port, or unix:/path/to.sock")
	flags.StringVar(&c.upstream, "upstream", "", "the Redis behind: redis://, rediss:// or unix:// URL, or redis+cluster://host:port,host:port (default: a store inside the process)")
	flags.DurationVar(&c.dialTimeout, "dial-timeout", backend.DefaultDialTimeout, "how long connecting upstream may take")
	flags.DurationVar(&c.upstreamTimeout, "upstream-timeout", backend.DefaultTimeout, "how long the upstream may leave commands unanswered before it is held to be dead; blocking commands are exempt")
	flags.StringVar(&c.onFailure, "on-upstream-failure", string(backend.PolicyError), "what limiter commands answer while the upstream is away: error, allow, deny, or local (limits kept in this process)")
	flags.DurationVar(&c.writeTimeout, "write-timeout", proxy.DefaultWriteTimeout, "how long a client may take no bytes of its replies")
	flags.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long clients may take to finish at shutdown")
	flags.IntVar(&c.maxClients, "max-clients", proxy.DefaultMaxClients, "how many clients may be connected")
	flags.IntVar(&c.outputLimit, "client-output-limit", proxy.DefaultOutputLimit, "bytes of finished replies that may wait for a client to read them")
	flags.StringVar(&c.requirepass, "requirepass", "", "password that clients must give (user default); better set by CELLPROXY_REQUIREPASS")
	flags.StringVar(&c.usersFile, "users-file", "", "file of users who may connect, a line each: name password, or name #sha256")
	flags.StringSliceVar(&c.refuse, "refuse", proxy.DefaultRefuse, "commands to refuse; DEBUG and SHUTDOWN may be worth adding")
	flags.StringVar(&c.pidFile, "pid-file", "", "file to write the process id to, by whoever listens: SIGUSR2 has a new process take over")
	flags.BoolVar(&c.unprotected, "unprotected", false, "allow listening beyond loopback, where anybody who can connect is served")
}

// validate checks everything that can be checked before anything is opened.
func (c *serveConfig) validate() error {
	for name, d := range map[string]time.Duration{
		"dial-timeout": c.dialTimeout, "upstream-timeout": c.upstreamTimeout,
		"write-timeout": c.writeTimeout, "shutdown-timeout": c.shutdownTimeout,
		"max-clients": time.Duration(c.maxClients), "client-output-limit": time.Duration(c.outputLimit),
	} {
		if d <= 0 {
			return fmt.Errorf("invalid --%s: %w", name, errNotPositive)
		}
	}
	if _, err := backend.ParsePolicy(c.onFailure); err != nil {
		return fmt.Errorf("invalid --on-upstream-failure: %w", err)
	}
	return c.validateListen()
}

func (c *serveConfig) validateListen() error {
	if len(c.listen) > 5 && c.listen[:5] == "unix:" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.listen)
	if err != nil {
		return fmt.Errorf("invalid --listen: %w", err)
	}
	ip := net.ParseIP(host)
	if c.unprotected || c.requirepass != "" || c.usersFile != "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--listen %s is open to the network and asks nobody for a password: add --requirepass or --users-file, listen on loopback, or add --unprotected", c.listen)
}

// serve runs the proxy until ctx ends.
func serve(ctx context.Context, config serveConfig, log *slog.Logger) error {
	users, err := readUsers(config.requirepass, config.usersFile)
	if err != nil {
		return usageError{err}
	}
	loops, err := poll.Start()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		log.Warn("no event loop, every client has a goroutine", "err", err)
	}
	defer loops.Close()
	upstream, err := backend.New(backend.Config{
		URL: config.upstream, DialTimeout: config.dialTimeout, Timeout: config.upstreamTimeout,
		Policy: backend.Policy(config.onFailure), Loops: loops, Logger: log,
	})
	if err != nil {
		return usageError{err}
	}
	defer upstream.Close()
	upgrade, err := newUpgrade(config.pidFile, log)
	if err != nil {
		return err
	}
	defer upgrade.close()
	server := proxy.New(proxy.Config{
		Backend: upstream, ListenFunc: upgrade.listen, MaxClients: config.maxClients, OutputLimit: config.outputLimit,
		WriteTimeout: config.writeTimeout, Users: users, Refuse: config.refuse, Loops: loops, Logger: log,
	})
	if err := server.Listen(config.listen); err != nil {
		return err
	}
	if err := upstream.Check(); err == nil {
		log.Info("upstream is ready", "addr", upstream.Addr())
	}
	log.Info("listening", "addr", server.Addr().String())
	if err := upgrade.ready(); err != nil {
		return err
	}
	return serveUntil(ctx, upgrade, server, config, log)
}

// serveUntil serves until ctx ends or a new process has taken over, then lets
// the clients finish. On SIGHUP it reloads.
func serveUntil(ctx context.Context, upgrade *upgrade, server *proxy.Server, config serveConfig, log *slog.Logger) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for wait := true; wait; {
		select {
		case err := <-served:
			return err
		case <-hangups:
			reload(server, config, log)
		case <-ctx.Done():
			wait = false
		case <-upgrade.replaced():
			wait = false
		}
	}
	log.Info("shutting down")
	upgrade.close()
	ctx, cancel := context.WithTimeout(context.Background(), config.shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		log.Warn("clients were cut off", "after", config.shutdownTimeout)
	}
	return <-served
}

// reload reads again what may change while cellproxy serves. What can't be read
// leaves all as it was.
func reload(server *proxy.Server, config serveConfig, log *slog.Logger) {
	users, err := readUsers(config.requirepass, config.usersFile)
	if err != nil {
		log.Error("not reloaded", "err", err)
		return
	}
	server.SetUsers(users)
	log.Info("reloaded", "users", len(users))
}
