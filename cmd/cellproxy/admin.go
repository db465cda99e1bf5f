package main

import (
	"context"
	"fmt"

	"cellproxy/proxy"
	"cellproxy/proxy/admin"
)

// validateAdmin sees that nobody is let look by mistake.
func (c *serveConfig) validateAdmin() error {
	if c.admin == "" {
		return nil
	}
	endpoint, err := proxy.ParseEndpoint(c.admin)
	if err != nil {
		return fmt.Errorf("invalid --admin: %w", err)
	}
	if !endpoint.IsLocal() && !c.adminOpen {
		return fmt.Errorf("--admin %s is open to the network: listen on loopback, or add --admin-unprotected", c.admin)
	}
	return nil
}

// startAdmin opens the admin listener, if one is wanted, and serves until
// stopAdmin is called, which waits for the end.
func (s *service) startAdmin() error {
	s.stopAdmin = func() {}
	if s.config.admin == "" {
		return nil
	}
	server := admin.New(admin.Config{
		Server: s.server, Backend: s.upstream, Version: version(), Profiles: s.config.adminPprof,
		ListenFunc: s.upgrade.listen, Logger: s.log,
	})
	if err := server.Listen(s.config.admin); err != nil {
		return err
	}
	s.log.Info("admin is listening", "addr", server.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(ctx); err != nil {
			s.log.Error("no admin listener any more", "err", err)
		}
	}()
	s.stopAdmin = func() {
		cancel()
		<-served
	}
	return nil
}
