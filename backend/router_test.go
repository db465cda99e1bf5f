package backend

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellproxy/backend/cluster"
)

// fakeCluster is two nodes, each with half of the slots, whose replies to
// commands with keys the test decides.
type fakeCluster struct {
	nodes [2]*fakeUpstream

	mu    sync.Mutex
	seen  []string // commands with keys, and at which node
	moved bool     // the slot of a, to node 0
}

// slotA is that of the key a, which node 1 has at first. Node 0 has that of b.
const slotA = 15495

func newFakeCluster(t *testing.T, handle func(node int, args []string) string) *fakeCluster {
	c := &fakeCluster{}
	ready := make(chan struct{})
	for i := range c.nodes {
		c.nodes[i] = newFakeUpstream(t, func(args []string) string {
			<-ready
			switch strings.ToUpper(strings.Join(args, " ")) {
			case "CLUSTER INFO":
				return "$25\r\ncluster_current_epoch:1\r\n\r\n"
			case "CLUSTER SLOTS":
				return c.slots()
			case "COMMAND":
				return "*2\r\n" + commandEntry("get") + commandEntry("set")
			}
			if len(args) < 2 || strings.EqualFold(args[0], "HELLO") {
				return "-ERR unknown command\r\n"
			}
			c.mu.Lock()
			c.seen = append(c.seen, fmt.Sprint(i, " ", strings.Join(args, " ")))
			c.mu.Unlock()
			return handle(i, args)
		})
	}
	close(ready)
	return c
}

func commandEntry(name string) string {
	return fmt.Sprintf("*6\r\n$%d\r\n%s\r\n:-2\r\n*0\r\n:1\r\n:1\r\n:1\r\n", len(name), name)
}

func (c *fakeCluster) port(node int) int { return c.nodes[node].Addr().(*net.TCPAddr).Port }

func (c *fakeCluster) slots() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ranges := [][3]int{{0, cluster.Slots/2 - 1, 0}, {cluster.Slots / 2, cluster.Slots - 1, 1}}
	if c.moved {
		ranges = [][3]int{{0, cluster.Slots/2 - 1, 0}, {cluster.Slots / 2, slotA - 1, 1}, {slotA, slotA, 0}, {slotA + 1, cluster.Slots - 1, 1}}
	}
	reply := fmt.Sprintf("*%d\r\n", len(ranges))
	for _, r := range ranges {
		reply += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", r[0], r[1], c.port(r[2]))
	}
	return reply
}

// commands returns the commands with keys that have come so far.
func (c *fakeCluster) commands() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// open returns a lane to the cluster.
func (c *fakeCluster) open(t *testing.T, wait time.Duration) *router {
	t.Helper()
	url := fmt.Sprintf("redis+cluster://%s,%s", c.nodes[0].Addr(), c.nodes[1].Addr())
	b, err := New(Config{URL: url, ClusterWait: wait, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b.Lane(b.Default()).(*router)
}

// play submits commands at once and returns the replies.
func (c *fakeCluster) play(t *testing.T, wait time.Duration, lines ...string) []string {
	t.Helper()
	lane, sink := c.open(t, wait), newRecorder()
	defer lane.Release()
	submit(t, lane, sink, lines...)
	return slices.Clone(sink.waitReplies(t, len(lines)))
}

func submit(t *testing.T, lane Lane, sink Sink, lines ...string) {
	t.Helper()
	var requests []Request
	for _, line := range lines {
		requests = append(requests, request(strings.Fields(line)...))
	}
	if err := lane.Submit(sink, requests, nil, new(Place)); err != nil {
		t.Fatal(err)
	}
}

// once returns reply for the first command that is line, and +OK for others.
func once(line string, reply func() string) func(int, []string) string {
	var first sync.Once
	return func(_ int, args []string) (out string) {
		out = "+OK\r\n"
		if strings.Join(args, " ") == line {
			first.Do(func() { out = reply() })
		}
		return out
	}
}

// TestRouterKeepsTheOrderOfASlot: what a node has not run must not be sent again
// when a later command of the same slot has been run. Of another slot, it must.
func TestRouterKeepsTheOrderOfASlot(t *testing.T) {
	for _, refusal := range []string{
		"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "-CLUSTERDOWN The cluster is down\r\n",
		"-LOADING Redis is loading the dataset in memory\r\n", "-MOVED 15495 127.0.0.1:%d\r\n", "-ASK 15495 127.0.0.1:%d\r\n",
	} {
		var c *fakeCluster
		refuse := func() string {
			if strings.Contains(refusal, "%d") {
				return fmt.Sprintf(refusal, c.port(0))
			}
			return refusal
		}
		c = newFakeCluster(t, once("set a 1", refuse))
		got := c.play(t, time.Minute, "set a 1", "set b 1", "set a 2")
		if want := []string{string(overtaken), "+OK\r\n", "+OK\r\n"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", refuse(), got, want)
		}
		c = newFakeCluster(t, once("set a 1", refuse))
		got = c.play(t, time.Minute, "set a 1", "set b 1", "set other 2", "get b")
		if want := []string{"+OK\r\n", "+OK\r\n", "+OK\r\n", "+OK\r\n"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", refuse(), got, want)
		}
	}
}

// TestRouterSendsAgainInOrder has a slot that has moved while commands of it,
// and others, are under way.
func TestRouterSendsAgainInOrder(t *testing.T) {
	var c *fakeCluster
	c = newFakeCluster(t, func(node int, args []string) string {
		if node == 1 && args[1] == "a" {
			return fmt.Sprintf("-MOVED %d 127.0.0.1:%d\r\n", slotA, c.port(0))
		}
		return "+" + strings.Join(args, " ") + "\r\n"
	})
	var lines, want, wantSeen []string
	for i := range 100 {
		for _, key := range []string{"a", "b", "other"} {
			line := fmt.Sprintf("set %s %d", key, i)
			lines, want = append(lines, line), append(want, "+"+line+"\r\n")
		}
		wantSeen = append(wantSeen, fmt.Sprintf("0 set a %d", i))
	}
	if got := c.play(t, time.Minute, lines...); !slices.Equal(got, want) {
		t.Errorf("replies %q, want %q", got, want)
	}
	if seen := c.commandsLike("0 set a "); !slices.Equal(seen, wantSeen) {
		t.Errorf("the other node has seen %q, want %q", seen, wantSeen)
	}
}

// commandsLike returns the commands with keys that begin so.
func (c *fakeCluster) commandsLike(prefix string) []string {
	return slices.DeleteFunc(c.commands(), func(command string) bool { return !strings.HasPrefix(command, prefix) })
}

// TestRouterWaitsForWhatIsUnderWay: when the slot is known to have moved, what
// comes next must not overtake what is still on its way to the node before.
func TestRouterWaitsForWhatIsUnderWay(t *testing.T) {
	late := make(chan struct{})
	var c *fakeCluster
	c = newFakeCluster(t, func(node int, args []string) string {
		if node == 0 {
			return "+OK\r\n"
		}
		if args[2] == "1" {
			c.mu.Lock()
			c.moved = true
			c.mu.Unlock()
		} else {
			<-late
		}
		return fmt.Sprintf("-MOVED %d 127.0.0.1:%d\r\n", slotA, c.port(0))
	})
	lane, sink := c.open(t, time.Minute), newRecorder()
	defer lane.Release()
	submit(t, lane, sink, "set a 1", "set a 2")
	for deadline := time.Now().Add(10 * time.Second); lane.cluster.now.Load().table.Owner(slotA) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody has seen that the slot has moved")
		}
	}
	submit(t, lane, sink, "set a 3")
	time.Sleep(20 * time.Millisecond) // for it to be sent, if that is what it does
	close(late)
	sink.waitReplies(t, 3)
	if got, want := c.commandsLike("0 "), []string{"0 set a 1", "0 set a 2", "0 set a 3"}; !slices.Equal(got, want) {
		t.Errorf("the other node has seen %q, want %q", got, want)
	}
}

// TestRouterGivesUp has a command that no node ever runs, and one that ends the
// connection: that may have been run, and is not sent again.
func TestRouterGivesUp(t *testing.T) {
	c := newFakeCluster(t, func(_ int, args []string) string {
		switch args[1] {
		case "a":
			return "-CLUSTERDOWN The cluster is down\r\n"
		case "b":
			return ""
		}
		return "+OK\r\n"
	})
	const wait = 50 * time.Millisecond
	began := time.Now()
	got := c.play(t, wait, "set a 1", "set other 1")
	if want := []string{"-CLUSTERDOWN The cluster is down\r\n", "+OK\r\n"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if took := time.Since(began); took < wait {
		t.Errorf("gave up after %v, want %v", took, wait)
	}
	if got := c.play(t, time.Minute, "set b 1"); !strings.HasPrefix(got[0], "-"+lostText) {
		t.Errorf("%q, want %q…", got, lostText)
	}
	if sent := c.commandsLike("0 set b 1"); len(sent) != 1 {
		t.Errorf("what may have been run was sent %d times", len(sent))
	}
}
