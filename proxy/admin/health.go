package admin

import (
	"errors"
	"fmt"
	"net/http"

	"cellproxy/backend"
)

var errNotServing = errors.New("not listening, or shutting down")

// health handles /healthz: who can answer is alive.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "ok")
}

// ready handles /readyz: whether clients had better be sent here.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.canServe(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// canServe returns why limiter commands would not be answered. While the
// upstream is away that depends on the policy.
func (s *Server) canServe() error {
	if !s.config.Server.Serving() {
		return errNotServing
	}
	err := s.config.Backend.Check()
	if s.config.Backend.Policy() == backend.PolicyError {
		return err
	}
	return nil
}
