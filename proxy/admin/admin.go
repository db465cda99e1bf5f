// Package admin lets people look at a running proxy: a status page, metrics for
// Prometheus, and whether it lives and can serve.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"cellproxy/backend"
	"cellproxy/proxy"
)

// headerTimeout is how long a client may take to say what it wants, and
// idleTimeout how long it may say nothing.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Config says what is to be looked at. Server and Backend are required.
type Config struct {
	Server  *proxy.Server
	Backend *backend.Backend
	// Version is that of the program.
	Version string
	// Profiles serves those of net/http/pprof.
	Profiles bool
	// ListenFunc opens the listening socket. Default net.Listen.
	ListenFunc func(network, addr string) (net.Listener, error)
	// Logger is told what goes wrong. Default slog.Default().
	Logger *slog.Logger
}

// Server is the admin listener. Call Listen, then Serve; Addr is valid between.
type Server struct {
	config   Config
	began    time.Time
	listener net.Listener
	http     http.Server
}

// New returns a server that does not listen yet.
func New(config Config) *Server {
	if config.ListenFunc == nil {
		config.ListenFunc = net.Listen
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	s := &Server{config: config, began: time.Now()}
	s.http = http.Server{
		Handler: s.pages(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(config.Logger.Handler(), slog.LevelWarn),
	}
	return s
}

// Listen opens the listening socket; see proxy.ParseEndpoint. Port 0 picks a free
// one.
func (s *Server) Listen(addr string) (err error) {
	endpoint, err := proxy.ParseEndpoint(addr)
	if err != nil {
		return fmt.Errorf("cannot listen for --admin: %w", err)
	}
	if s.listener, err = s.config.ListenFunc(endpoint.Network, endpoint.Address); err != nil {
		return fmt.Errorf("cannot listen for --admin: %w", err)
	}
	return nil
}

// Addr returns the address the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves until ctx ends, and a moment longer those who are being served.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			s.http.Close()
		}
	})
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve --admin: %w", err)
	}
	return nil
}

// pages are what there is to see.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics())
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /status.json", s.status)
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	if s.config.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return guard(mux)
}

// guard answers only those who address the server by number, or as localhost: a
// page from elsewhere whose name has come to mean this machine must not read
// what is here.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.IP.IsLoopback() && !byNumber(r.Host) {
			http.Error(w, "not by this name", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// byNumber reports whether a host, with or without a port, is an address, or
// localhost: no name server has a say in that.
func byNumber(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}
