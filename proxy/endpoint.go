package proxy

import (
	"fmt"
	"net"
	"strings"
)

// Endpoint is where to listen.
type Endpoint struct {
	Network string // "tcp" or "unix"
	Address string // host:port, or the path of a socket
	TLS     bool
}

// ParseEndpoint reads host:port or tcp://host:port, tls://host:port, or the path
// of a unix socket as unix:///path or unix:/path.
func ParseEndpoint(s string) (Endpoint, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if path == "" {
			return Endpoint{}, fmt.Errorf("%s: no path", s)
		}
		return Endpoint{Network: "unix", Address: path}, nil
	}
	e := Endpoint{Network: "tcp"}
	if e.Address, e.TLS = strings.CutPrefix(s, "tls://"); !e.TLS {
		e.Address = strings.TrimPrefix(s, "tcp://")
	}
	_, _, err := net.SplitHostPort(e.Address)
	return e, err
}

// String returns the endpoint as ParseEndpoint reads it.
func (e Endpoint) String() string {
	switch {
	case e.Network == "unix":
		return "unix://" + e.Address
	case e.TLS:
		return "tls://" + e.Address
	}
	return e.Address
}

// IsLocal reports whether only this machine's users can connect.
func (e Endpoint) IsLocal() bool {
	if e.Network == "unix" {
		return true
	}
	host, _, _ := net.SplitHostPort(e.Address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
