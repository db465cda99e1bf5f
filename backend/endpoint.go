package backend

import (
	"context"
	"net"
	"time"
)

// Endpoint is a server that is told by the URL of an upstream, for who speaks to
// it without a Backend. It is no cluster.
type Endpoint struct {
	// User, Password and DB are what the URL says: who dials is to tell the server.
	User, Password string
	DB             int

	network, addr string
	dial          func(ctx context.Context, network, addr string) (net.Conn, error)
}

// ParseEndpoint takes a URL as Config has it. Connecting, with TLS if the URL
// says so, may take dialTimeout.
func ParseEndpoint(url string, dialTimeout time.Duration) (*Endpoint, error) {
	options, files, err := parseOptions(url)
	if err != nil {
		return nil, invalidURL(err)
	}
	options.DialTimeout = dialTimeout
	return &Endpoint{
		User: options.Username, Password: options.Password, DB: options.DB,
		network: options.Network, addr: options.Addr, dial: newDialer(options, files),
	}, nil
}

// Dial connects.
func (e *Endpoint) Dial(ctx context.Context) (net.Conn, error) {
	return e.dial(ctx, e.network, e.addr)
}
