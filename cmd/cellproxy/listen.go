package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"

	"cellproxy/proxy"
)

var (
	errNoListen = errors.New("--listen names no address")
	errNotOctal = errors.New("not an octal number up to 777")
)

// validateListen checks where to listen, and that nobody is let in by mistake.
func (c *serveConfig) validateListen() error {
	if len(c.listen) == 0 {
		return errNoListen
	}
	seen := make(map[proxy.Endpoint]bool)
	secure := false
	for _, addr := range c.listen {
		endpoint, err := proxy.ParseEndpoint(addr)
		if err != nil {
			return fmt.Errorf("invalid --listen: %w", err)
		}
		if c.isOpen(endpoint) {
			return fmt.Errorf("--listen %s is open to the network and asks nobody for a password: add --requirepass or --users-file, listen on loopback, or add --unprotected", addr)
		}
		secure = secure || endpoint.TLS
		endpoint.TLS = false // it is the same socket
		if seen[endpoint] {
			return fmt.Errorf("invalid --listen: %s is there twice", addr)
		}
		seen[endpoint] = true
	}
	return c.validateTLS(secure)
}

// isOpen reports whether anybody in the network is served at an endpoint.
func (c *serveConfig) isOpen(e proxy.Endpoint) bool {
	asks := c.requirepass != "" || c.usersFile != "" || e.TLS && c.tlsClientCA != ""
	return !e.IsLocal() && !asks && !c.unprotected
}

// parsePerm reads permissions in octal; none is 0.
func parsePerm(s string) (fs.FileMode, error) {
	if s == "" {
		return 0, nil
	}
	perm, err := strconv.ParseUint(s, 8, 32)
	if err != nil || perm == 0 || perm > 0o777 {
		return 0, errNotOctal
	}
	return fs.FileMode(perm), nil
}

// open opens a socket to listen on. A unix socket that nobody listens on is what
// a process that was killed has left: it is replaced.
func (c *serveConfig) open(network, addr string) (net.Listener, error) {
	if network != "unix" {
		return net.Listen(network, addr)
	}
	removeIfDead(addr)
	ln, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	if perm, _ := parsePerm(c.socketPerm); perm != 0 {
		if err := os.Chmod(addr, perm); err != nil {
			ln.Close()
			return nil, err
		}
	}
	return ln, nil
}

// removeIfDead removes a socket that refuses connections.
func removeIfDead(path string) {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path)
	}
}
