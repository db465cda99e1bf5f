package proxy

import (
	"crypto/tls"
	"time"
)

// Defaults of Settings.
const (
	DefaultMaxClients   = 10000
	DefaultOutputLimit  = 256 << 20
	DefaultWriteTimeout = time.Minute
)

// DefaultRefuse are the commands that would make the proxy look like a
// replica, or start something the proxy can't follow.
var DefaultRefuse = []string{"SYNC", "PSYNC", "REPLCONF", "FAILOVER"}

// Settings are how a Server treats its clients. They may change while it serves.
type Settings struct {
	// MaxClients is how many clients may be connected. Default 10000.
	MaxClients int
	// OutputLimit is how many bytes of finished replies may wait for a client
	// to read them before it is disconnected. Default 256 MiB.
	OutputLimit int
	// SubscriberLimits are how many bytes of messages may wait for a subscriber.
	// Default DefaultSubscriberLimits.
	SubscriberLimits OutputLimits
	// WriteTimeout is how long a client may take no bytes of what is written
	// to it. Default 1 minute.
	WriteTimeout time.Duration
	// IdleTimeout is how long a client may neither send nor be sent anything
	// before it is disconnected. Subscribers, clients that wait for a blocking
	// command and those of MONITOR may for ever. Default 0: all may.
	IdleTimeout time.Duration
	// TLS is what clients of endpoints with TLS get. Required if there are any.
	TLS *tls.Config
	// HandshakeTimeout is how long they may take until they have it. Default
	// 10 s.
	HandshakeTimeout time.Duration
	// Users are whom the proxy itself asks for a password. None: nobody.
	Users Users
	// Refuse names commands that are answered with an error.
	Refuse []string

	routes routes // what Refuse makes of them
}

// Change changes the settings. Those who are connected stay, with the
// limits, WriteTimeout and TLS they came with.
func (s *Server) Change(settings Settings) {
	if settings.MaxClients <= 0 {
		settings.MaxClients = DefaultMaxClients
	}
	if settings.OutputLimit <= 0 {
		settings.OutputLimit = DefaultOutputLimit
	}
	if settings.SubscriberLimits == (OutputLimits{}) {
		settings.SubscriberLimits = DefaultSubscriberLimits
	}
	if settings.WriteTimeout <= 0 {
		settings.WriteTimeout = DefaultWriteTimeout
	}
	if settings.HandshakeTimeout <= 0 {
		settings.HandshakeTimeout = DefaultHandshakeTimeout
	}
	settings.routes = newRoutes(settings.Refuse, s.config.Backend.Clustered())
	s.settings.Store(&settings)
}

func (s *Server) asksForPassword() bool {
	return len(s.settings.Load().Users) > 0
}
