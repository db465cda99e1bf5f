package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
)

const (
	// portAttempts is how often another port is tried when one is taken.
	portAttempts = 5
	// maxClients is more than are ever connected.
	maxClients = "15000"
)

// servers are what the bench starts: a Redis, and before it a cellproxy and one
// that keeps refusals.
type servers struct {
	dir                               string
	redis, cellproxy, denying         *child
	redisAddr, proxyAddr, denyingAddr string
}

func startServers(ctx context.Context, serveFlags []string) (s *servers, err error) {
	s = &servers{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	// A short path, for the socket in it.
	if s.dir, err = os.MkdirTemp("/tmp", "bench"); err != nil {
		return nil, err
	}
	if err := s.startRedis(); err != nil {
		return nil, err
	}
	if err := s.buildCellproxy(ctx); err != nil {
		return nil, err
	}
	if s.cellproxy, s.proxyAddr, err = s.startCellproxy(serveFlags); err != nil {
		return nil, err
	}
	s.denying, s.denyingAddr, err = s.startCellproxy(append([]string{"--deny-cache"}, serveFlags...))
	return s, err
}

// startRedis starts a Redis that persists nothing. A port that is free may be
// somebody's a moment later, then another one is tried.
func (s *servers) startRedis() error {
	socket := filepath.Join(s.dir, "redis.sock")
	for range portAttempts {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.redisAddr = net.JoinHostPort("127.0.0.1", port)
		s.redis, err = startChild(exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket", socket,
			"--dir", s.dir, "--save", "", "--appendonly", "no", "--maxclients", maxClients, "--loglevel", "warning"))
		if err != nil {
			return err
		}
		if s.redis.await(func() bool { return listens(socket) }) {
			return nil
		}
	}
	return fmt.Errorf("redis-server did not start:\n%s", s.redis.said.String())
}

// listens reports whether somebody listens on a socket. Redis does last.
func listens(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// listening is the log line that tells cellproxy's address.
var listening = regexp.MustCompile(`msg=listening .*\baddr="?([^"\s]+)`)

func (s *servers) binary() string { return filepath.Join(s.dir, "cellproxy") }

func (s *servers) buildCellproxy(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", s.binary(), "cellproxy/cmd/cellproxy")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build cellproxy: %w\n%s", err, out)
	}
	return nil
}

func (s *servers) startCellproxy(serveFlags []string) (c *child, addr string, err error) {
	c, err = startChild(exec.Command(s.binary(), slices.Concat([]string{
		"serve", "--listen", "127.0.0.1:0", "--upstream", "redis://" + s.redisAddr, "--max-clients", maxClients,
	}, serveFlags)...))
	if err != nil {
		return nil, "", err
	}
	if !c.await(func() bool {
		match := listening.FindStringSubmatch(c.said.String())
		if match != nil {
			addr = match[1]
		}
		return match != nil
	}) {
		return nil, "", fmt.Errorf("cellproxy did not start:\n%s", c.said.String())
	}
	return c, addr, nil
}

func (s *servers) candidates() []candidate {
	behind := s.redis.process()
	return []candidate{
		{name: redisName, addr: s.redisAddr, redisAddr: s.redisAddr, redis: behind},
		{name: cellproxyName, addr: s.proxyAddr, redisAddr: s.redisAddr, limiters: true,
			proxy: s.cellproxy.process(), redis: behind},
		{name: denyingName, addr: s.denyingAddr, redisAddr: s.redisAddr, limiters: true, denying: true,
			proxy: s.denying.process(), redis: behind},
	}
}

func (s *servers) stop() {
	s.cellproxy.kill()
	s.denying.kill()
	s.redis.kill()
	os.RemoveAll(s.dir)
}

// raiseFileLimit lets this process, and those it starts, open as many files as
// the system allows: each connection is one.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}
