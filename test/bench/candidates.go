package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/commands"
)

const (
	redisName     = "Redis"
	cellproxyName = "cellproxy"
	denyingName   = "cellproxy --deny-cache"
	cellName      = "redis-cell"
)

// candidate is a server that is measured.
type candidate struct {
	name, addr string
	redisAddr  string // of the Redis behind, if it is known
	limiters   bool   // it knows CL.THROTTLE; others are sent EVALSHA
	cell       bool   // it is a redis-cell, which is measured for its command only
	denying    bool   // it keeps refusals, and is measured for these only
	foreign    bool   // it was there before: what the bench leaves there is deleted

	proxy, redis process // none if they are not known
}

func cellCandidate(addr string) candidate {
	return candidate{name: cellName, addr: addr, redisAddr: addr, limiters: true, cell: true, foreign: true}
}

// parsePeers reads "name=addr name=addr/addr-of-its-redis".
func parsePeers(list string) ([]candidate, error) {
	var peers []candidate
	for _, word := range parseWords(list) {
		name, addrs, found := strings.Cut(word, "=")
		addr, redisAddr, _ := strings.Cut(addrs, "/")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not name=addr or name=addr/addr", word)
		}
		for _, a := range []string{addr, redisAddr} {
			if _, _, err := net.SplitHostPort(a); err != nil && a != "" || addr == "" {
				return nil, fmt.Errorf("%q: %q is not host:port", word, a)
			}
		}
		peers = append(peers, candidate{name: name, addr: addr, redisAddr: redisAddr, foreign: true})
	}
	return peers, nil
}

// findProcesses finds out, by the ports they listen on, which processes are
// behind the addresses of a candidate that was there before.
func (c *candidate) findProcesses() {
	if !c.foreign {
		return
	}
	c.redis = listeningOn(c.redisAddr)
	if c.addr != c.redisAddr {
		c.proxy = listeningOn(c.addr)
	}
}

// takes reports whether the candidate is measured with a load.
func (c candidate) takes(l load) bool {
	return (l.limiter() || !c.cell) && (l.refused || !c.denying)
}

// words is the load's command as this candidate takes it.
func (c candidate) words(l load) ([]string, error) {
	if c.limiters {
		return l.words, nil
	}
	return commands.AsEvalSHA(l.words)
}

// prepare makes the keys that the load needs, and the script known.
func (c candidate) prepare(ctx context.Context, l load) error {
	var steps [][]string
	if !c.limiters && l.limiter() {
		eval, err := commands.AsEval(l.wordsOf(0))
		if err != nil {
			return err
		}
		steps = append(steps, eval)
	}
	for i := range l.prepared() {
		words := l.prepare(i, l.wordsOf(i))
		if words == nil {
			continue
		}
		if !c.limiters {
			var err error
			if words, err = commands.AsEvalSHA(words); err != nil {
				return err
			}
		}
		steps = append(steps, words)
	}
	return c.send(ctx, steps)
}

// cleanUp deletes what prepare made in a server that was there before.
func (c candidate) cleanUp(ctx context.Context, l load) error {
	if !c.foreign {
		return nil
	}
	var commands [][]string
	for i := range l.prepared() {
		commands = append(commands, []string{"DEL", l.wordsOf(i)[1]})
	}
	return c.send(ctx, commands)
}

// send sends commands, a hundred at a time, the first alone.
func (c candidate) send(ctx context.Context, commands [][]string) error {
	client := redis.NewClient(&redis.Options{
		Addr: c.addr, Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ReadTimeout: 20 * time.Second,
	})
	defer client.Close()
	for size := 1; len(commands) > 0; size = 100 {
		size = min(size, len(commands))
		pipeline := client.Pipeline()
		for _, words := range commands[:size] {
			args := make([]any, len(words))
			for i, word := range words {
				args[i] = word
			}
			pipeline.Do(ctx, args...)
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			return fmt.Errorf("%s: %s: %w", c.name, commands[0][0], err)
		}
		commands = commands[size:]
	}
	return nil
}
