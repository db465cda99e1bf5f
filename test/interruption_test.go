package test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestNothingIsSentTwice takes the upstream away while it runs commands, a
// thousand times. It writes every change to its file before it replies, so that
// afterwards a counter tells how often INCR was run: no less than it was
// acknowledged, and no more than that and the times that nobody can know.
func TestNothingIsSentTwice(t *testing.T) {
	const clients, rounds = 8, 1000
	redis := redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "no"}})
	line := newBreaker(t, redis.Socket())
	proxy := proxytest.Start(t, "redis://"+line.Addr().String(), "--upstream-timeout", "100ms")
	rng := newRand(t)
	counters := make([]*increments, clients)
	for i := range counters {
		counters[i] = &increments{key: fmt.Sprint("key", i), dial: func() *wire.Conn { return proxy.Dial(t) }}
	}
	probe := proxy.Dial(t)
	done := map[string]int{}
	for count := 0; count < rounds; {
		kind := interruptions[rng.IntN(len(interruptions))]
		if kind.slow && rng.IntN(6) > 0 {
			continue
		}
		before := unknown(counters)
		end := kind.begin(t, redis, line, rng)
		var work sync.WaitGroup
		for i, c := range counters {
			n := 1 + rng.IntN(1+i*i*3)
			work.Go(func() {
				if err := c.increment(n, i%4 == 3); err != nil {
					t.Errorf("%s: %v", kind.name, err)
				}
			})
		}
		end()
		work.Wait()
		line.mend()
		await(t, "the upstream to be back", func() bool { return probe.Do("PING") == "+PONG\r\n" })
		check(t, redis, counters, kind.name)
		if t.Failed() {
			return
		}
		if unknown(counters) > before { // else it came too early or too late
			done[kind.name]++
			count++
		}
	}
	acknowledged, ran := 0, 0
	direct := redis.Client(t)
	for _, c := range counters {
		n, _ := direct.Get(t.Context(), c.key).Int()
		acknowledged += c.counted
		ran += n
	}
	t.Logf("%v: %d INCRs acknowledged, %d of unknown outcome, %d of them run", done, acknowledged, unknown(counters), ran-acknowledged)
}

// interruptions are the ways to take the upstream away in the middle of
// something. begin is called before the clients send, and the function it
// returns after they have begun to; the latter returns when the upstream is, or
// can be, back.
var interruptions = []struct {
	name  string
	slow  bool // takes so long that it is done less often
	begin func(*testing.T, *redistest.Server, *breaker, *rand.Rand) (end func())
}{
	{"killed", true, func(t *testing.T, redis *redistest.Server, line *breaker, rng *rand.Rand) func() {
		mark := line.passed.Load() + int64(rng.IntN(1000))
		return func() {
			line.awaitPassed(mark)
			redis.Restart()
		}
	}},
	{"frozen", true, func(t *testing.T, redis *redistest.Server, line *breaker, rng *rand.Rand) func() {
		redis.Freeze()
		return func() {
			time.Sleep(150 * time.Millisecond) // longer than --upstream-timeout
			redis.Thaw()
		}
	}},
	{"cut on the way there", false, func(t *testing.T, _ *redistest.Server, line *breaker, rng *rand.Rand) func() {
		line.arm(there, rng.IntN(1000))
		return func() {}
	}},
	{"cut on the way back", false, func(t *testing.T, _ *redistest.Server, line *breaker, rng *rand.Rand) func() {
		line.arm(back, rng.IntN(200))
		return func() {}
	}},
	{"cut on the way back", false, func(t *testing.T, _ *redistest.Server, line *breaker, rng *rand.Rand) func() {
		line.arm(back, 0)
		return func() {}
	}},
	{"disconnected", false, func(t *testing.T, redis *redistest.Server, line *breaker, rng *rand.Rand) func() {
		admin := redis.Dial(t)
		mark := line.passed.Load() + int64(rng.IntN(1000))
		return func() {
			line.awaitPassed(mark)
			admin.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			admin.Close()
		}
	}},
}

// increments counts what became of the INCRs of one key. One client sends them.
type increments struct {
	key     string
	dial    func() *wire.Conn
	conn    *wire.Conn // nil: closed
	counted int        // acknowledged
	unknown int        // run or not
	last    int        // acknowledged last
	echoed  int        // so far, for words that were never used before
}

func unknown(counters []*increments) (n int) {
	for _, c := range counters {
		n += c.unknown
	}
	return n
}

// check compares the counters with what the clients were told.
func check(t *testing.T, redis *redistest.Server, counters []*increments, kind string) {
	t.Helper()
	direct := redis.Dial(t)
	defer direct.Close()
	for _, c := range counters {
		reply := direct.Do("INCRBY", c.key, "0")
		got, err := strconv.Atoi(strings.Trim(reply, ":\r\n"))
		if err != nil || got < c.counted || got > c.counted+c.unknown {
			t.Errorf("%s: %s is %q, with %d acknowledged and %d unknown", kind, c.key, reply, c.counted, c.unknown)
		}
	}
}

// increment sends n INCRs in a pipeline, each with a word behind it that comes
// back in a single line, or one in a transaction, and reads the replies. Each must be a number higher than the one before, or an error that
// says what is known.
func (c *increments) increment(n int, transaction bool) error {
	if c.conn == nil {
		c.conn = c.dial()
	}
	commands := [][]string{{"MULTI"}, {"INCR", c.key}, {"EXEC"}}
	if !transaction {
		commands = nil
		for range n {
			c.echoed++
			commands = append(commands, []string{"INCR", c.key}, []string{"EVAL", "return {ok=ARGV[1]}", "0", fmt.Sprint(c.key, "/", c.echoed)})
		}
	}
	if _, err := c.conn.Write(wire.Encode(commands...)); err != nil {
		return err
	}
	for _, command := range commands {
		reply, err := c.conn.ReadReply()
		if err != nil && transaction {
			// The connection goes with the transaction that was on it.
			c.unknown++
			c.conn.Close()
			c.conn = nil
			return nil
		}
		if err != nil {
			return fmt.Errorf("%q: %w", command, err)
		}
		if err := c.note(command, reply); err != nil {
			return fmt.Errorf("%q = %q: %w", command, reply, err)
		}
	}
	return nil
}

// note takes account of a reply.
func (c *increments) note(command []string, reply string) error {
	number, isNumber := strings.CutPrefix(strings.TrimPrefix(reply, "*1\r\n"), ":")
	switch {
	case isNumber && command[0] != "EVAL":
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n <= c.last {
			return fmt.Errorf("after %d", c.last)
		}
		c.last = n
		c.counted++
	case strings.HasPrefix(reply, "-ERR upstream connection lost before the reply, the command may have been run: "):
		if command[0] == "INCR" || command[0] == "EXEC" {
			c.unknown++
		}
	case command[0] == "EVAL" && reply == "+"+command[3]+"\r\n":
	case strings.HasPrefix(reply, "-ERR upstream unavailable, the command was not run: "),
		strings.HasPrefix(reply, "-LOADING "), reply == "-ERR EXEC without MULTI\r\n",
		strings.HasPrefix(reply, "-EXECABORT "), reply == "+OK\r\n", reply == "+QUEUED\r\n":
	default:
		return fmt.Errorf("neither a number nor a known error")
	}
	return nil
}

// The directions of a breaker.
const (
	there = iota
	back
)

// breaker passes connections on to a server, until it is told to break them.
type breaker struct {
	net.Listener
	socket string
	passed atomic.Int64 // bytes on their way there
	tasks  sync.WaitGroup

	mu    sync.Mutex
	armed bool
	left  [2]int // bytes that still pass when armed
	conns map[net.Conn]bool
}

func newBreaker(t *testing.T, socket string) *breaker {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{Listener: ln, socket: socket, conns: make(map[net.Conn]bool)}
	b.tasks.Go(b.serve)
	t.Cleanup(func() {
		b.Listener.Close()
		b.arm(there, 0)
		b.breakAll()
		b.tasks.Wait()
	})
	return b
}

func (b *breaker) serve() {
	for {
		near, err := b.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", b.socket)
		if err != nil {
			near.Close()
			continue
		}
		b.mu.Lock()
		b.conns[near], b.conns[far] = true, true
		b.mu.Unlock()
		b.tasks.Go(func() { b.pump(there, far, near) })
		b.tasks.Go(func() { b.pump(back, near, far) })
	}
}

// pump copies in one direction until the connection ends or is broken.
func (b *breaker) pump(direction int, to, from net.Conn) {
	defer b.hangUp(to, from)
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		pass, broken := b.take(direction, n)
		if direction == there {
			b.passed.Add(int64(pass))
		}
		if _, err := to.Write(buf[:pass]); err != nil {
			return
		}
		if broken {
			b.breakAll()
			return
		}
	}
}

// take says how many of n bytes may pass, and whether the line breaks behind
// them.
func (b *breaker) take(direction, n int) (pass int, broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.armed {
		return n, false
	}
	pass = min(n, b.left[direction])
	b.left[direction] -= pass
	return pass, pass < n
}

// arm has the line break after so many more bytes in a direction.
func (b *breaker) arm(direction, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = true
	b.left = [2]int{1 << 40, 1 << 40}
	b.left[direction] = bytes
}

// mend lets everything pass again.
func (b *breaker) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
}

// breakAll ends all connections; those made from then on are whole.
func (b *breaker) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	for conn := range b.conns {
		conn.Close()
	}
	clear(b.conns)
}

func (b *breaker) hangUp(conns ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(b.conns, conn)
	}
}

// awaitPassed waits until so many bytes have passed there, or that has taken
// long.
func (b *breaker) awaitPassed(bytes int64) {
	for end := time.Now().Add(20 * time.Millisecond); b.passed.Load() < bytes && time.Now().Before(end); {
		time.Sleep(20 * time.Microsecond)
	}
}
