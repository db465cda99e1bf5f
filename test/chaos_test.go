package test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// chaosFlag is for how long TestChaos goes on: `make chaos` says longer.
var chaosFlag = flag.Duration("chaos", 60*time.Second, "how long the upstream is maltreated")

// chaosErrors are how the errors begin that a disaster may cause. Anything else
// is a wrong reply.
var chaosErrors = []string{"-ERR upstream ", "-READONLY ", "-OOM ", "-LOADING "}

// TestChaos has one thing after the other happen to the upstream while 200
// clients work. Every request has to be answered, once, in order and with a
// reply that can only be its own; service has to be back within a second after a
// disaster, or within five if the machine is busy with something else for once;
// and in the end nothing may be left over.
func TestChaos(t *testing.T) {
	const clients = 200
	const back, late = time.Second, 5 * time.Second
	redis := redistest.Start(t, redistest.Options{Args: disasterArgs})
	proxy := proxytest.Start(t, redis.URL(), "--upstream-timeout", "500ms")
	rng := newRand(t)
	probe := proxy.Dial(t)
	awaitServed(t, probe)
	files := proxy.Files()

	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	tallies := make([]chaosClient, clients)
	for i := range tallies {
		c := &tallies[i]
		*c = chaosClient{id: i, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), conn: proxy.Dial(t)}
		work.Go(func() {
			if err := c.work(ctx); err != nil {
				t.Errorf("client %d: %v", c.id, err)
				stop()
			}
		})
	}
	var pauses []time.Duration
	for end := time.Now().Add(*chaosFlag); time.Now().Before(end) && ctx.Err() == nil; {
		for _, i := range rng.Perm(len(disasters)) {
			d := disasters[i]
			time.Sleep(time.Duration(100+rng.IntN(300)) * time.Millisecond) // of peace
			d.begin(t, redis)
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond) // of disaster
			d.end(t, redis)
			began := time.Now()
			awaitServed(t, probe)
			took := time.Since(began)
			pauses = append(pauses, took)
			if took > late {
				t.Errorf("after being %s service took %v to be back", d.name, took)
			}
		}
	}
	stop()
	work.Wait()
	slices.Sort(pauses)
	if usual := pauses[len(pauses)*3/4]; usual > back {
		t.Errorf("after a quarter of the disasters service took %v or more to be back", usual)
	}
	answered, failed := 0, 0
	for i := range tallies {
		answered += tallies[i].answered
		failed += tallies[i].failed
		tallies[i].conn.Close()
	}
	t.Logf("%d requests answered, %d with an error; service was back after %v at most", answered, failed, pauses[len(pauses)-1])
	if failed == 0 || failed == answered {
		t.Errorf("%d of %d failed: that tells nothing", failed, answered)
	}
	awaitFiles(t, proxy, files)
}

// chaosClient sends pipelines whose replies show whether they are its own.
type chaosClient struct {
	id   int
	rng  *rand.Rand
	conn *wire.Conn
	sent int // so far, for values that were never used before

	answered, failed int
}

// chaosStep is a command and how its reply has to begin.
type chaosStep struct {
	args []string
	want []string
}

func (c *chaosClient) work(ctx context.Context) error {
	for ctx.Err() == nil {
		steps := make([]chaosStep, 1+c.rng.IntN(20))
		var commands [][]string
		for i := range steps {
			steps[i] = c.step()
			commands = append(commands, steps[i].args)
		}
		if _, err := c.conn.Write(wire.Encode(commands...)); err != nil {
			return err
		}
		for _, step := range steps {
			if err := c.check(step); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(c.rng.IntN(40)) * time.Millisecond) // leave some of the machine to the others
	}
	return nil
}

func (c *chaosClient) step() chaosStep {
	c.sent++
	own := fmt.Sprintf("client%d", c.id)
	value := fmt.Sprintf("%s/%d", own, c.sent)
	switch c.rng.IntN(6) {
	case 0:
		return chaosStep{[]string{"ECHO", value}, []string{bulk(value)}}
	case 1:
		return chaosStep{[]string{"SET", own, value}, []string{"+OK\r\n"}}
	case 2:
		return chaosStep{[]string{"GET", own}, []string{"$-1\r\n", fmt.Sprintf("$%d\r\n%s/", len(value), own), fmt.Sprintf("$%d\r\n%s/", len(value)-1, own), fmt.Sprintf("$%d\r\n%s/", len(value)-2, own), fmt.Sprintf("$%d\r\n%s/", len(value)-3, own)}}
	case 3:
		return chaosStep{[]string{"EVAL", "return {KEYS[1], ARGV[1]}", "1", own, value}, []string{"*2\r\n" + bulk(own) + bulk(value)}}
	default:
		// The limit is the client's own.
		burst := 1000000 + c.id
		return chaosStep{
			[]string{"CL.THROTTLE", own + "limit", fmt.Sprint(burst), "1000", "1"},
			[]string{fmt.Sprintf("*5\r\n:0\r\n:%d\r\n", burst+1)},
		}
	}
}

// check reads a reply and compares it with its request.
func (c *chaosClient) check(step chaosStep) error {
	reply, err := c.conn.ReadReply()
	if err != nil {
		return fmt.Errorf("%q: %w", step.args, err)
	}
	c.answered++
	begins := func(prefix string) bool { return strings.HasPrefix(reply, prefix) }
	if slices.ContainsFunc(step.want, begins) {
		return nil
	}
	c.failed++
	if !slices.ContainsFunc(chaosErrors, begins) {
		return fmt.Errorf("%q = %q", step.args, reply)
	}
	return nil
}
