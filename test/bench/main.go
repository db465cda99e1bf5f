// Bench measures cellproxy beside the Redis it stands before, and beside
// whatever other proxies or redis-cell it is given the addresses of. It builds
// cellproxy, starts it and a Redis on free loopback ports, has redis-benchmark
// put the same loads on each in turn, and prints tables in Markdown.
//
//	go run ./test/bench -peers "predixy=127.0.0.1:7802/127.0.0.1:7100" -cell 127.0.0.1:7801
//
// docs/performance.md says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// plan is what to measure.
type plan struct {
	loads       []load
	clients     []int
	pipelines   []int
	rounds      int
	duration    time.Duration // of one measurement
	connections int           // how many are many; 0: leave that section out
	reference   string        // the candidate that ratios are to
	cell        string        // address of a redis-cell, or empty
	peers       []candidate   // the other proxies
	serveFlags  []string      // more flags for cellproxy serve
}

func main() {
	p, err := parsePlan(os.Args[1:], os.Stderr)
	if err == flag.ErrHelp {
		return
	}
	if err != nil { // it has been said
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, p, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parsePlan reads the flags. What is wrong with them it says on usage.
func parsePlan(args []string, usage io.Writer) (plan, error) {
	p := plan{loads: loads, clients: []int{1, 50, 256, 1000}, pipelines: []int{1, 16, 64}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Func("loads", "which of CL.THROTTLE, LIMITED, GET and SET (default all)", func(s string) (err error) {
		p.loads, err = parseLoads(s)
		return err
	})
	flags.Func("clients", "numbers of clients (default 1,50,256,1000)", func(s string) (err error) {
		p.clients, err = parseNumbers(s)
		return err
	})
	flags.Func("pipelines", "numbers of commands in a pipeline (default 1,16,64)", func(s string) (err error) {
		p.pipelines, err = parseNumbers(s)
		return err
	})
	flags.Func("peers", "other proxies: name=addr, or name=addr/addr with that of the Redis behind", func(s string) (err error) {
		p.peers, err = parsePeers(s)
		return err
	})
	flags.Func("serve", "more flags for cellproxy serve", func(s string) error {
		p.serveFlags = strings.Fields(s)
		return nil
	})
	flags.StringVar(&p.cell, "cell", "", "address of a Redis with redis-cell")
	flags.StringVar(&p.reference, "reference", redisName, "the one that ratios are to")
	flags.IntVar(&p.rounds, "rounds", 3, "rounds, of which the median is taken")
	flags.DurationVar(&p.duration, "duration", 2*time.Second, "how long to measure each, each round")
	flags.IntVar(&p.connections, "connections", 10_000, "how many connections are many; 0 leaves that section out")
	err := flags.Parse(args)
	if err == nil && (flags.NArg() > 0 || p.rounds < 1 || p.duration <= 0 || p.connections < 0) {
		err = fmt.Errorf("-rounds and -duration must be more than 0, and nothing may follow them: %q", flags.Args())
		fmt.Fprintln(usage, err)
	}
	return p, err
}

var errNone = errors.New("there must be one at least")

// parseWords splits a list at commas and spaces.
func parseWords(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func parseNumbers(list string) ([]int, error) {
	var numbers []int
	for _, word := range parseWords(list) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number above 0", word)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return nil, errNone
	}
	return numbers, nil
}

// run carries out a plan. The tables go to out as they are done, and what is
// under way to progress.
func run(ctx context.Context, p plan, out, progress io.Writer) error {
	raiseFileLimit()
	started, err := startServers(ctx, p.serveFlags)
	if err != nil {
		return err
	}
	defer started.stop()
	candidates := started.candidates()
	if p.cell != "" {
		candidates = append(candidates, cellCandidate(p.cell))
	}
	candidates = append(candidates, p.peers...)
	for i := range candidates {
		candidates[i].findProcesses()
	}
	b := &bench{plan: p, candidates: candidates, out: out, progress: progress}
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("%w\ncellproxy said:\n%s", err, started.cellproxy.said.String())
	}
	return nil
}
