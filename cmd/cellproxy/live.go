package main

import (
	"strings"

	"github.com/spf13/pflag"

	"cellproxy/backend"
	"cellproxy/proxy"
)

// live are the settings that may change while cellproxy serves.
var live = map[string]bool{
	"on-upstream-failure": true, "write-timeout": true, "shutdown-timeout": true, "max-clients": true,
	"client-output-limit": true, "pubsub-output-limit": true, "idle-timeout": true, "requirepass": true, "users-file": true, "refuse": true, "log-level": true,
	"tls-cert": true, "tls-key": true, "tls-client-ca": true, "tls-min-version": true,
}

// settings are how clients are to be treated.
func (c *serveConfig) settings() (proxy.Settings, error) {
	users, err := readUsers(c.requirepass, c.usersFile)
	if err != nil {
		return proxy.Settings{}, err
	}
	subscriberLimits, _ := parseOutputLimits(c.pubsubLimit) // it has been validated
	secure, err := c.tls()
	return proxy.Settings{
		MaxClients: c.maxClients, OutputLimit: c.outputLimit, SubscriberLimits: subscriberLimits,
		WriteTimeout: c.writeTimeout, IdleTimeout: c.idleTimeout, Users: users, Refuse: c.refuse, TLS: secure,
	}, err
}

// apply puts into effect what is live.
func (s *service) apply(config *serveConfig, settings proxy.Settings) {
	level, _ := parseLevel(config.logLevel) // it has been validated
	s.level.Set(level)
	s.upstream.SetPolicy(backend.Policy(config.onFailure))
	s.server.Change(settings)
	s.shutdownTimeout = config.shutdownTimeout
}

// reload reads again what may change while cellproxy serves. What can't be read
// leaves all as it was.
func (s *service) reload() {
	config, settings, err := s.load()
	if err != nil {
		s.log.Error("not reloaded", "err", err)
		return
	}
	s.apply(config, settings)
	if waiting := s.config.fixedUnlike(config); len(waiting) > 0 {
		s.log.Warn("some settings change when cellproxy is started again", "settings", strings.Join(waiting, ","))
	}
	s.log.Info("reloaded", "users", len(settings.Users))
}

// load reads what reload puts into effect. The address stays, so it is by that
// one that clients may have to be asked for a password.
func (s *service) load() (*serveConfig, proxy.Settings, error) {
	config, err := loadConfig(s.given)
	if err != nil {
		return nil, proxy.Settings{}, err
	}
	effective := *config
	effective.listen, effective.unprotected = s.config.listen, s.config.unprotected
	if err := effective.validateListen(); err != nil {
		return nil, proxy.Settings{}, err
	}
	settings, err := config.settings()
	return config, settings, err
}

// fixedUnlike returns the settings that differ and are not live.
func (c *serveConfig) fixedUnlike(other *serveConfig) (names []string) {
	c.flags.VisitAll(func(f *pflag.Flag) {
		if !live[f.Name] && flagText(f) != flagText(other.flags.Lookup(f.Name)) {
			names = append(names, f.Name)
		}
	})
	return names
}
