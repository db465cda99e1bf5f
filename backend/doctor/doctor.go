// Package doctor examines an upstream: whether a cellproxy can serve from it,
// what will go wrong, and what to do about it.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/backend"
)

// Defaults of Config.
const (
	DefaultKeyPrefix = "cellproxy:doctor:"
	DefaultSamples   = 300
)

// Config says what to examine.
type Config struct {
	// Backend is the upstream.
	Backend *backend.Backend
	// Timeout is what serve gives the upstream to answer: latency is judged by
	// it.
	Timeout time.Duration
	// KeyPrefix begins the key that is written and deleted. It must be one that
	// the user may use.
	KeyPrefix string
	// Samples is how many round trips latency is measured by.
	Samples int
}

// Level says how bad it is.
type Level int

const (
	// OK is as it should be.
	OK Level = iota
	// Unknown could not be found out.
	Unknown
	// Warning works, until something else happens.
	Warning
	// Failure does not work.
	Failure
)

func (l Level) String() string {
	return [...]string{"ok", "?", "warn", "FAIL"}[l]
}

// Finding is what a check has found.
type Finding struct {
	Check string // its name, one word
	Level Level
	Text  string // what is so
	Fix   string // what to do about it, if there is anything
}

// String is the finding in one line.
func (f Finding) String() string {
	line := fmt.Sprintf("%-4s  %-11s  %s", f.Level, f.Check, f.Text)
	if f.Fix != "" {
		line += "; to fix: " + f.Fix
	}
	return line
}

// exam is one examination, of one server.
type exam struct {
	Config
	clustered bool // it is examined as a node of a cluster
	client    *redis.Client
	key       string
	info      info
}

// check is one question. It leaves Finding.Check to others.
type check struct {
	name string
	run  func(e *exam, ctx context.Context) Finding
}

// checks are what is asked, once there is a connection.
var checks = []check{
	{"version", (*exam).version},
	{"role", (*exam).role},
	{"permissions", (*exam).permissions},
	{"limiter", (*exam).limiter},
	{"clock", (*exam).clock},
	{"latency", (*exam).latency},
	{"eviction", (*exam).eviction},
	{"persistence", (*exam).persistence},
	{"connections", (*exam).connections},
	{"timeout", (*exam).idleTimeout},
	{"protection", (*exam).protection},
	{"cluster", (*exam).cluster},
}

// Examine makes all checks in turn, of a cluster those of each master, and reports
// each when it is done. It returns the worst level of all. Without a connection,
// that is the only finding.
func Examine(ctx context.Context, config Config, report func(Finding)) Level {
	nodes, err := config.Backend.Nodes()
	if len(nodes) == 0 {
		worst := (&exam{Config: config}).examine(ctx, report)
		if err != nil {
			report(Finding{Check: "cluster", Level: Failure, Text: "cannot tell which nodes have which slots: " + oneLine(err), Fix: hint(err)})
			worst = Failure
		}
		return worst
	}
	worst := OK
	for _, node := range nodes {
		config.Backend = node
		worst = max(worst, (&exam{Config: config, clustered: true}).examine(ctx, func(f Finding) {
			f.Text = node.Addr() + ": " + f.Text
			report(f)
		}))
	}
	return worst
}

func (e *exam) examine(ctx context.Context, report func(Finding)) Level {
	found := e.connect(ctx)
	found.Check = "connection"
	report(found)
	worst := found.Level
	if worst == Failure {
		return worst
	}
	defer e.client.Close()
	e.info = parseInfo(e.client.Info(ctx).Val()) // nothing, if the user may not
	e.key = e.ownKey(ctx)
	for _, c := range checks {
		found := c.run(e, ctx)
		found.Check = c.name
		report(found)
		worst = max(worst, found.Level)
		if ctx.Err() != nil {
			break
		}
	}
	return worst
}
