package redistest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many a cluster has.
const slots = 16384

// nodeTimeout is after how long the nodes of a cluster hold one for dead.
const nodeTimeout = 1500 * time.Millisecond

// Cluster is a running Redis Cluster.
type Cluster struct {
	// Nodes are the masters, each with an equal share of the slots, and behind
	// them the replicas: the first of the first master, and so on.
	Nodes   []*Server
	Masters int
	t       testing.TB
}

// StartCluster starts a cluster of so many masters, each with so many replicas,
// and waits until it works.
func StartCluster(t testing.TB, masters, replicas int) *Cluster {
	t.Helper()
	c := &Cluster{Masters: masters, t: t}
	for range masters * (1 + replicas) {
		c.Nodes = append(c.Nodes, c.startNode())
	}
	for i, node := range c.Nodes {
		if i < masters {
			first, last := slots*i/masters, slots*(i+1)/masters-1
			c.do(node, "CLUSTER", "ADDSLOTSRANGE", first, last)
		}
		c.do(node, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		for _, other := range c.Nodes[:i] {
			c.do(node, "CLUSTER", "MEET", "127.0.0.1", other.port)
		}
	}
	for i, node := range c.Nodes[masters:] {
		master := c.ID(c.Nodes[i%masters])
		c.poll("a replica knows its master", func() bool {
			return node.Client(t).Do(context.Background(), "CLUSTER", "REPLICATE", master).Err() == nil
		})
	}
	c.Await()
	return c
}

func (c *Cluster) startNode() *Server {
	c.t.Helper()
	return Start(c.t, Options{TCP: true, clustered: true, Args: []string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", fmt.Sprint(nodeTimeout.Milliseconds()),
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		"--protected-mode", "no",
	}})
}

// Await waits until every node that runs finds the cluster whole, and every
// replica has its master.
func (c *Cluster) Await() {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.process == nil {
			continue
		}
		client := node.Client(c.t)
		c.poll("the cluster is whole", func() bool {
			ctx := context.Background()
			info := client.ClusterInfo(ctx).Val()
			known, _ := client.ClusterNodes(ctx).Result()
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_size:%d", c.Masters)) &&
				strings.Count(known, " connected") == len(c.Nodes) &&
				!strings.Contains(client.Info(ctx, "replication").Val(), "master_link_status:down")
		})
	}
}

// URL returns the cluster's address, by one node, for cellproxy.
func (c *Cluster) URL() string {
	return "redis+cluster://" + c.Nodes[0].Addr() + "," + c.Nodes[1].Addr()
}

// ID returns the name of a node in the cluster.
func (c *Cluster) ID(node *Server) string {
	c.t.Helper()
	id, _ := c.do(node, "CLUSTER", "MYID").(string)
	return id
}

// Client returns a client that knows the cluster, and is closed when the test
// ends.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{c.Nodes[0].Addr(), c.Nodes[1].Addr()}, Protocol: 2,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// Reshard has redis-cli move slots from one master to another.
func (c *Cluster) Reshard(from, to *Server, count int) error {
	out, err := exec.Command("redis-cli", "--cluster", "reshard", c.Nodes[0].Addr(),
		"--cluster-from", c.ID(from), "--cluster-to", c.ID(to),
		"--cluster-slots", fmt.Sprint(count), "--cluster-yes").CombinedOutput()
	if err != nil {
		return fmt.Errorf("redis-cli: %w\n%s", err, out)
	}
	return nil
}

// MoveSlot moves a slot as redis-cli does, but halts when between says so: when
// the target and the source know that the slot is to move ("begun"), and when all
// its keys have moved but nobody has been told ("moved").
func (c *Cluster) MoveSlot(slot int, from, to *Server, between func(stage string)) {
	c.t.Helper()
	c.do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ID(from))
	c.do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ID(to))
	between("begun")
	for {
		keys, _ := c.do(from, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		c.do(from, append([]any{"MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	between("moved")
	for _, node := range []*Server{to, from} {
		c.do(node, "CLUSTER", "SETSLOT", slot, "NODE", c.ID(to))
	}
}

func (c *Cluster) do(node *Server, args ...any) any {
	c.t.Helper()
	reply, err := node.Client(c.t).Do(context.Background(), args...).Result()
	if err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// poll waits until what is said is so.
func (c *Cluster) poll(what string, so func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(startTimeout); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain until %s:\n%s", what, c.Nodes[0].Client(c.t).ClusterNodes(context.Background()).Val())
		}
	}
}
