package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// masterName is what sentinels call the master.
const masterName = "mymaster"

// downAfter is after how long sentinels hold a server for dead.
const downAfter = 2500 * time.Millisecond

// sentinelPatience is how long what sentinels do may take: when they do not agree
// they let some time pass before they try again.
const sentinelPatience = time.Minute

// Watched are a master and replicas that sentinels watch.
type Watched struct {
	// Servers are the first master and the replicas.
	Servers   []*Server
	sentinels []*sentinel
}

// sentinel is a running redis-sentinel.
type sentinel struct {
	t       testing.TB
	port    int
	process *process
	output  output
}

// StartWatched starts a master and so many replicas, and so many sentinels, and
// waits until all know of each other.
func StartWatched(t testing.TB, replicas, sentinels int) *Watched {
	t.Helper()
	w := &Watched{Servers: []*Server{Start(t, Options{TCP: true})}}
	master := w.Servers[0]
	for range replicas {
		w.Servers = append(w.Servers, Start(t, Options{TCP: true, Args: []string{
			"--replicaof", "127.0.0.1 " + fmt.Sprint(master.port), "--repl-diskless-sync-delay", "0",
		}}))
	}
	poll(t, "the replicas have their master", func() bool {
		info := master.Client(t).Info(context.Background(), "replication").Val()
		return strings.Count(info, "state=online") == replicas
	})
	for range sentinels {
		w.sentinels = append(w.sentinels, startSentinel(t, master.port, sentinels/2+1))
	}
	for _, s := range w.sentinels {
		client := s.client(t)
		poll(t, "the sentinels know of each other", func() bool {
			master, err := client.Master(context.Background(), masterName).Result()
			return err == nil && master["num-slaves"] == fmt.Sprint(replicas) && master["num-other-sentinels"] == fmt.Sprint(sentinels-1)
		})
	}
	return w
}

// URL returns the sentinels' address, for cellproxy.
func (w *Watched) URL() string {
	var addrs []string
	for _, s := range w.sentinels {
		addrs = append(addrs, s.addr())
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + masterName
}

// Failover has the sentinels make another server the master though the one they
// have is alive.
func (w *Watched) Failover(t testing.TB) {
	t.Helper()
	client := w.sentinels[0].client(t)
	// The last one may not be over yet, or no replica fit to be the master.
	poll(t, "the sentinels do that", func() bool {
		return client.Failover(context.Background(), masterName).Err() == nil
	})
}

// Master returns the server that the sentinels take for the master.
func (w *Watched) Master(t testing.TB) *Server {
	t.Helper()
	return w.AwaitMaster(t, nil)
}

// AwaitMaster waits until that is another one than before, and returns it.
func (w *Watched) AwaitMaster(t testing.TB, before *Server) (master *Server) {
	t.Helper()
	client := w.sentinels[0].client(t)
	poll(t, "there is another master", func() bool {
		addr, _ := client.GetMasterAddrByName(context.Background(), masterName).Result()
		for _, s := range w.Servers {
			if len(addr) == 2 && addr[1] == fmt.Sprint(s.port) && s != before {
				master = s
			}
		}
		return master != nil
	})
	return master
}

func startSentinel(t testing.TB, masterPort, quorum int) *sentinel {
	t.Helper()
	s := &sentinel{t: t}
	t.Cleanup(s.cleanUp)
	for range portAttempts {
		s.port = 20000 + rand.IntN(10000)
		s.launch(masterPort, quorum)
		if s.await(masterPort) {
			return s
		}
	}
	t.Fatalf("no sentinel has started:\n%s", s.output.String())
	return nil
}

func (s *sentinel) launch(masterPort, quorum int) {
	s.t.Helper()
	dir := shortTempDir(s.t)
	config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %d %d\n"+
		"sentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s 4000\n",
		s.port, dir, masterName, masterPort, quorum, masterName, downAfter.Milliseconds(), masterName)
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("redis-server", file, "--sentinel")
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.process = &process{cmd: cmd, exited: make(chan struct{})}
	go func(p *process) {
		defer close(p.exited)
		cmd.Wait()
	}(s.process)
}

// await polls until the sentinel watches the master. It reports false if it has
// ended.
func (s *sentinel) await(masterPort int) bool {
	s.t.Helper()
	client := s.client(s.t)
	watches := false
	poll(s.t, "a sentinel answers", func() bool {
		master, _ := client.Master(context.Background(), masterName).Result()
		watches = master["port"] == fmt.Sprint(masterPort)
		return watches || s.process.hasExited()
	})
	return watches
}

func (s *sentinel) addr() string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(s.port)) }

func (s *sentinel) client(t testing.TB) *redis.SentinelClient {
	client := redis.NewSentinelClient(&redis.Options{Addr: s.addr(), Protocol: 2, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	return client
}

func (s *sentinel) cleanUp() {
	if s.process != nil {
		s.process.kill()
	}
	if s.t.Failed() {
		s.t.Logf("a sentinel said:\n%s", s.output.String())
	}
}

// poll waits until what is said is so.
func poll(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(sentinelPatience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
