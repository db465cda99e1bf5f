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

// servers are what the bench starts: a Redis, and a cellproxy before it.
type servers struct {
	dir                  string
	redis, cellproxy     *child
	redisAddr, proxyAddr string
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
	return s, s.startCellproxy(ctx, serveFlags)
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

func (s *servers) startCellproxy(ctx context.Context, serveFlags []string) (err error) {
	binary := filepath.Join(s.dir, "cellproxy")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "cellproxy/cmd/cellproxy")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build cellproxy: %w\n%s", err, out)
	}
	s.cellproxy, err = startChild(exec.Command(binary, slices.Concat([]string{
		"serve", "--listen", "127.0.0.1:0", "--upstream", "redis://" + s.redisAddr, "--max-clients", maxClients,
	}, serveFlags)...))
	if err != nil {
		return err
	}
	if !s.cellproxy.await(func() bool {
		match := listening.FindStringSubmatch(s.cellproxy.said.String())
		if match != nil {
			s.proxyAddr = match[1]
		}
		return match != nil
	}) {
		return fmt.Errorf("cellproxy did not start:\n%s", s.cellproxy.said.String())
	}
	return nil
}

func (s *servers) candidates() []candidate {
	behind := s.redis.process()
	return []candidate{
		{name: redisName, addr: s.redisAddr, redisAddr: s.redisAddr, redis: behind},
		{name: cellproxyName, addr: s.proxyAddr, redisAddr: s.redisAddr, limiters: true,
			proxy: s.cellproxy.process(), redis: behind},
	}
}

func (s *servers) stop() {
	s.cellproxy.kill()
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
