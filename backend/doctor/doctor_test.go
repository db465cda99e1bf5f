package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellproxy/backend"
	"cellproxy/test/certs"
	"cellproxy/test/redistest"
)

// diagnose examines an upstream and returns the findings by check. Latency is
// as the machine has it: nothing is expected of it here.
func diagnose(t *testing.T, url string) (map[string]Finding, Level) {
	t.Helper()
	findings := make(map[string]Finding)
	worst := examine(t, url, func(f Finding) { findings[f.Check] = f })
	if latency, found := findings["latency"]; found && latency.Level == Warning {
		t.Logf("not expected of a test: %s", latency)
		delete(findings, "latency")
	}
	return findings, worst
}

// examine examines an upstream that has time to connect.
func examine(t *testing.T, url string, report func(Finding)) Level {
	t.Helper()
	return examineWithin(t, url, 10*time.Second, report)
}

func examineWithin(t *testing.T, url string, dialTimeout time.Duration, report func(Finding)) Level {
	t.Helper()
	upstream, err := backend.New(backend.Config{
		URL: url, DialTimeout: dialTimeout, Timeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	return Examine(t.Context(), Config{Backend: upstream, Timeout: time.Hour, KeyPrefix: DefaultKeyPrefix, Samples: 20}, report)
}

// withUser is the URL with another user and password.
func withUser(t *testing.T, text, user, password string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// TestHealthy expects nothing to be found, and nothing to be left.
func TestHealthy(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	findings, _ := diagnose(t, redis.URL())
	for _, c := range checks {
		if c.name == "latency" {
			continue
		}
		if f, found := findings[c.name]; !found || f.Level != OK || f.Text == "" || f.Fix != "" {
			t.Errorf("%s: got %q, want all well", c.name, f)
		}
	}
	if keys, err := redis.Client(t).DBSize(t.Context()).Result(); keys != 0 || err != nil {
		t.Errorf("%d keys are left, %v", keys, err)
	}
}

// TestIll has real servers in every bad state.
func TestIll(t *testing.T) {
	for name, test := range map[string]struct {
		options redistest.Options
		setUp   [][]any // commands that make it ill
		user    string  // connect as this one, password "pw"
		check   string
		level   Level
		mention []string
	}{
		"a user without permissions": {
			setUp: [][]any{{"ACL", "SETUSER", "bob", "on", ">pw", "~*", "+get", "+ping", "+time"}}, user: "bob",
			check: "permissions", level: Failure, mention: []string{"ACL SETUSER bob +script|load +evalsha +eval +set +del"},
		},
		"a user who may not ask for the time": {
			setUp: [][]any{{"ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "-time"}}, user: "bob",
			check: "permissions", level: Failure, mention: []string{"ACL SETUSER bob +time"},
		},
		"scripts that may not ask for the time": {
			setUp: [][]any{{"ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "-time"}}, user: "bob",
			check: "limiter", level: Failure, mention: []string{"see permissions"},
		},
		"a user of other keys": {
			setUp: [][]any{{"ACL", "SETUSER", "bob", "on", ">pw", "~app:*", "+@all"}}, user: "bob",
			check: "permissions", level: Failure, mention: []string{"cellproxy:doctor:*", "--key-prefix"},
		},
		"a user who is told nothing": {
			setUp: [][]any{{"ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "-@admin", "-info"}}, user: "bob",
			check: "eviction", level: Unknown, mention: []string{"INFO"},
		},
		"eviction of all keys": {
			options: redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}},
			check:   "eviction", level: Warning, mention: []string{"allkeys-lru", "noeviction"},
		},
		"eviction of keys with a TTL": {
			options: redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}},
			check:   "eviction", level: Warning, mention: []string{"volatile-ttl", "noeviction"},
		},
		"memory used up": {
			options: redistest.Options{Args: []string{"--maxmemory", "100", "--maxmemory-policy", "noeviction"}},
			check:   "eviction", level: Warning, mention: []string{"raise maxmemory"},
		},
		"no memory for a limiter": {
			options: redistest.Options{Args: []string{"--maxmemory", "100", "--maxmemory-policy", "noeviction"}},
			check:   "limiter", level: Failure, mention: []string{"OOM", "raise maxmemory"},
		},
		"few connections": {
			options: redistest.Options{Args: []string{"--maxclients", "20"}},
			check:   "connections", level: Warning, mention: []string{"of maxclients 20", "CONFIG SET maxclients"},
		},
		"idle connections closed": {
			options: redistest.Options{Args: []string{"--timeout", "300"}},
			check:   "timeout", level: Warning, mention: []string{"300 s", "CONFIG SET timeout 0"},
		},
		"open to everybody": {
			// It is not: with --port 0 it listens on its socket only.
			options: redistest.Options{Args: []string{"--bind", "* -::*", "--port", "0", "--protected-mode", "no"}},
			check:   "protection", level: Warning, mention: []string{"requirepass"},
		},
		"a cluster without slots": {
			options: redistest.Options{TCP: true, Args: []string{"--cluster-enabled", "yes", "--cluster-port", "0"}},
			check:   "cluster", level: Failure, mention: []string{"0 of 16384", "--cluster fix"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			redis := redistest.Start(t, test.options)
			for _, args := range test.setUp {
				if err := redis.Client(t).Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			url := redis.URL()
			if test.user != "" {
				url = withUser(t, url, test.user, "pw")
			}
			findings, worst := diagnose(t, url)
			expect(t, findings[test.check], test.level, test.mention)
			if test.level == Failure && worst != Failure {
				t.Errorf("the worst is %v, want FAIL", worst)
			}
		})
	}
}

// expect compares a finding. What is not ok must say what to do about it.
func expect(t *testing.T, got Finding, level Level, mention []string) {
	t.Helper()
	if got.Level != level || level > Unknown && got.Fix == "" {
		t.Errorf("got %q, want %v and what to do", got, level)
	}
	for _, part := range mention {
		if !strings.Contains(got.String(), part) {
			t.Errorf("got %q, want it to mention %q", got, part)
		}
	}
}

// TestNoConnection expects one finding, about the connection.
func TestNoConnection(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{Password: "secret", TCP: true})
	gone := redistest.Start(t, redistest.Options{TCP: true})
	gone.Kill()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	full := redistest.Start(t, redistest.Options{Args: []string{"--maxclients", "1"}})
	full.Dial(t).Do("PING")
	for name, test := range map[string]struct {
		url     string
		mention []string
	}{
		"nobody there":   {gone.URL(), []string{"connection refused", "host and port"}},
		"no answer":      {"redis://" + mute.Addr().String(), []string{"firewalls"}},
		"no such socket": {"unix:///nonexistent/redis.sock", []string{"no such file", "unixsocket"}},
		"no password":    {"redis://" + redis.Addr(), []string{"NOAUTH", "redis://user:password@host:port"}},
		"wrong password": {"redis://:wrong@" + redis.Addr(), []string{"WRONGPASS", "check user and password"}},
		"wrong user":     {withUser(t, redis.URL(), "nobody", "secret"), []string{"WRONGPASS", "check user and password"}},
		"no such DB":     {redis.URL() + "/99", []string{"DB index is out of range", "database"}},
		"no room":        {full.URL(), []string{"max number of clients", "maxclients"}},
		"no TLS":         {strings.Replace(redis.URL(), "redis://", "rediss://", 1), []string{"redis://"}},
		"only TLS":       {"redis://" + startTLS(t), []string{"rediss://"}},
	} {
		t.Run(name, func(t *testing.T) {
			dialTimeout := 10 * time.Second
			if name == "no answer" || name == "no TLS" {
				dialTimeout = 300 * time.Millisecond // Redis waits for more of the handshake
			}
			var got []Finding
			worst := examineWithin(t, test.url, dialTimeout, func(f Finding) { got = append(got, f) })
			if len(got) != 1 || worst != Failure {
				t.Fatalf("got %v, the worst %v; want one FAIL", got, worst)
			}
			expect(t, got[0], Failure, test.mention)
			for _, secret := range []string{"secret", "wrong@"} {
				if strings.Contains(got[0].String(), secret) {
					t.Errorf("it tells a password: %q", got[0])
				}
			}
		})
	}
}

// startTLS listens as a server does that wants TLS: what is no handshake it
// does not answer, but closes.
func startTLS(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tls.Server(conn, &tls.Config{}).Handshake()
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// TestTLS has an upstream that both sides' certificates matter to.
func TestTLS(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{TLS: certs.New(t), User: "user", Password: "password"})
	findings, _ := diagnose(t, redis.URL())
	expect(t, findings["connection"], OK, []string{"as user user"})
	expect(t, findings["limiter"], OK, nil)
	u, err := url.Parse(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Del("tls_cert")
	query.Del("tls_key")
	u.RawQuery = query.Encode()
	findings, _ = diagnose(t, u.String())
	expect(t, findings["connection"], Failure, []string{"tls_cert"})
	u.RawQuery = ""
	findings, _ = diagnose(t, u.String())
	expect(t, findings["connection"], Failure, []string{"?tls_ca="})
}

// TestReplica has one that takes no writes, and one that does.
func TestReplica(t *testing.T) {
	primary := redistest.Start(t, redistest.Options{TCP: true})
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := redistest.Start(t, redistest.Options{Args: []string{"--replicaof", host + " " + port}})
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the replica does not synchronise")
		}
	}
	findings, worst := diagnose(t, replica.URL())
	expect(t, findings["role"], Failure, []string{"replica of " + primary.Addr(), "takes no writes", "the primary"})
	expect(t, findings["limiter"], Failure, []string{"READONLY", "the primary"})
	if worst != Failure {
		t.Errorf("the worst is %v, want FAIL", worst)
	}
	if err := replica.Client(t).ConfigSet(t.Context(), "replica-read-only", "no").Err(); err != nil {
		t.Fatal(err)
	}
	findings, _ = diagnose(t, replica.URL())
	expect(t, findings["role"], Warning, []string{"loses them"})
}

// TestClock has the upstream's an hour back.
func TestClock(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{FakeClock: true})
	redis.SetClock(time.Now().Add(-time.Hour).UnixNano())
	findings, _ := diagnose(t, redis.URL())
	expect(t, findings["clock"], Warning, []string{"behind this machine's", "NTP"})
}

// TestPersistence has snapshots fail, which stops writes.
func TestPersistence(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	client := redis.Client(t)
	dir, err := client.ConfigGet(t.Context(), "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	// A directory in the place of the file: not even root can rename over it.
	if err := os.Mkdir(filepath.Join(dir["dir"], "dump.rdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]any{{"CONFIG", "SET", "save", "3600 1"}, {"SET", "k", "v"}, {"BGSAVE"}} {
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if parseInfo(client.Info(t.Context(), "persistence").Val())["rdb_last_bgsave_status"] == "err" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the snapshot does not fail")
		}
	}
	findings, _ := diagnose(t, redis.URL())
	expect(t, findings["persistence"], Failure, []string{"MISCONF", "full disk"})
	expect(t, findings["limiter"], Failure, []string{"MISCONF", "see persistence"})
	if err := client.ConfigSet(t.Context(), "stop-writes-on-bgsave-error", "no").Err(); err != nil {
		t.Fatal(err)
	}
	findings, _ = diagnose(t, redis.URL())
	expect(t, findings["persistence"], Warning, []string{"the last snapshot failed"})
	expect(t, findings["limiter"], OK, nil)
}

// TestWholeCluster has a cluster of one node, which is one Redis.
func TestWholeCluster(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--cluster-enabled", "yes", "--cluster-port", "0"}})
	client := redis.Client(t)
	if err := client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
	}
	findings, _ := diagnose(t, redis.URL())
	expect(t, findings["cluster"], OK, []string{"state ok, 16384 of 16384 slots assigned, 1 nodes"})
	expect(t, findings["limiter"], OK, nil)
}

// TestCluster examines each master, and a node alone that is not all.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	var lines []Finding
	worst := examine(t, cluster.URL(), func(f Finding) { lines = append(lines, f) })
	if want := 3 * (1 + len(checks)); len(lines) != want || worst == Failure {
		t.Errorf("got %d findings, the worst %v; want %d, and no failure: %v", len(lines), worst, want, lines)
	}
	for _, node := range cluster.Nodes {
		found := 0
		for _, f := range lines {
			if strings.HasPrefix(f.Text, node.Addr()+": ") && f.Level != Failure {
				found++
			}
		}
		if found != 1+len(checks) {
			t.Errorf("got %d findings about %s, want %d", found, node.Addr(), 1+len(checks))
		}
	}
	findings, _ := diagnose(t, cluster.Nodes[1].URL())
	expect(t, findings["cluster"], Failure, []string{"redis+cluster://" + cluster.Nodes[1].Addr()})
	expect(t, findings["limiter"], OK, nil)
	for _, node := range cluster.Nodes {
		if keys := node.Client(t).DBSize(t.Context()).Val(); keys != 0 {
			t.Errorf("%d keys are left at %s", keys, node.Addr())
		}
	}
}

// TestClusterGone has none of the nodes answer.
func TestClusterGone(t *testing.T) {
	gone := redistest.Start(t, redistest.Options{TCP: true})
	gone.Kill()
	findings, worst := diagnose(t, "redis+cluster://"+gone.Addr())
	expect(t, findings["connection"], Failure, []string{"connection refused"})
	expect(t, findings["cluster"], Failure, []string{"which slots"})
	if worst != Failure {
		t.Errorf("the worst is %v, want FAIL", worst)
	}
}

// TestSentinels examines the master that they name.
func TestSentinels(t *testing.T) {
	findings, worst := diagnose(t, redistest.StartWatched(t, 1, 3).URL())
	expect(t, findings["role"], OK, []string{"primary"})
	expect(t, findings["limiter"], OK, nil)
	if worst == Failure {
		t.Errorf("got %v, want no failure", findings)
	}
}

// TestInterrupted ends the examination at once.
func TestInterrupted(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	upstream, err := backend.New(backend.Config{URL: redis.URL(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	Examine(ctx, Config{Backend: upstream, Timeout: time.Second, KeyPrefix: "k", Samples: 1 << 30}, func(f Finding) {
		got = append(got, f.Check)
		cancel()
	})
	if len(got) > 2 {
		t.Errorf("got %d more findings after the interruption: %s", len(got)-1, fmt.Sprint(got))
	}
}
