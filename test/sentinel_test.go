package test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/redcon"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestSentinelFailover has three sentinels watch a master and two replicas. The
// master is killed, and the next one replaced: clients stay connected, the
// service resumes by itself, and a limit holds over all of it.
func TestSentinelFailover(t *testing.T) {
	watched := redistest.StartWatched(t, 2, 3)
	proxy := proxytest.Start(t, watched.URL())
	conn := proxy.Dial(t)
	const limit = 60
	taker := &taker{limiter: []string{"CL.THROTTLE", "user123", fmt.Sprint(limit - 1), "1", "86400"}}
	for range limit / 3 {
		taker.take(t, conn)
	}
	for i, replace := range []func(master *redistest.Server){
		func(master *redistest.Server) { master.Kill() },
		func(*redistest.Server) { watched.Failover(t) },
	} {
		master := watched.Master(t)
		awaitCopies(t, watched, master)
		replace(master)
		now := watched.AwaitMaster(t, master)
		// What the old master took when it was one no more is lost, as ever.
		client, key := now.Client(t), fmt.Sprint("round", i)
		await(t, "writes to go to the new master", func() bool {
			return conn.Do("SET", key, "x") == "+OK\r\n" && client.Exists(t.Context(), key).Val() == 1
		})
		for range limit / 3 {
			taker.take(t, conn)
		}
	}
	// Whoever takes all that is left takes no more than that.
	var tasks sync.WaitGroup
	for range 4 {
		conn := proxy.Dial(t)
		tasks.Go(func() {
			for range limit {
				taker.take(t, conn)
			}
		})
	}
	tasks.Wait()
	admitted, unknown := taker.admitted.Load(), taker.unknown.Load()
	if admitted > limit || admitted+unknown < limit {
		t.Errorf("%d were admitted, and of %d nobody knows, want %d", admitted, unknown, limit)
	}
}

// taker takes from a limit, and counts.
type taker struct {
	limiter  []string
	admitted atomic.Int64
	unknown  atomic.Int64 // what came of these
}

func (k *taker) take(t *testing.T, conn *wire.Conn) {
	conn.Write(wire.Encode(k.limiter))
	reply, err := conn.ReadReply()
	switch {
	case strings.HasPrefix(reply, "*5\r\n:0\r\n"):
		k.admitted.Add(1)
	case err != nil || strings.Contains(reply, "may have been run"):
		k.unknown.Add(1)
	case !strings.HasPrefix(reply, "*5\r\n:1\r\n") && reply[0] != '-':
		t.Errorf("a limiter answers %q", reply)
	}
}

// awaitCopies waits until the replicas that run have what the master has.
func awaitCopies(t *testing.T, watched *redistest.Watched, master *redistest.Server) {
	t.Helper()
	for _, server := range watched.Servers {
		if !server.Running() {
			continue
		}
		client := server.Client(t)
		await(t, "the replicas to have it all", func() bool {
			want := master.Client(t).Get(t.Context(), "user123").Val()
			return want != "" && client.Get(t.Context(), "user123").Val() == want
		})
	}
}

// fakeSentinel says that the master is where it is told, and nothing when that
// changes.
type fakeSentinel struct{ master atomic.Value }

func (f *fakeSentinel) start(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go redcon.Serve(ln, f.answer, nil, nil)
	return ln.Addr().String()
}

func (f *fakeSentinel) answer(conn redcon.Conn, cmd redcon.Command) {
	switch name := strings.ToUpper(string(cmd.Args[0])); name {
	case "SENTINEL":
		host, port, err := net.SplitHostPort(f.master.Load().(string))
		if err != nil {
			conn.WriteNull()
			return
		}
		conn.WriteArray(2)
		conn.WriteBulkString(host)
		conn.WriteBulkString(port)
	case "PING":
		conn.WriteString("PONG")
	case "SUBSCRIBE":
		conn.WriteArray(3)
		conn.WriteBulkString("subscribe")
		conn.WriteBulk(cmd.Args[1])
		conn.WriteInt(1)
	default:
		conn.WriteError("ERR unknown command")
	}
}

// TestSentinelDemotion makes a master a replica that keeps its clients, which no
// sentinel announces: what it answers to a write tells.
func TestSentinelDemotion(t *testing.T) {
	before := redistest.Start(t, redistest.Options{TCP: true})
	after := redistest.Start(t, redistest.Options{TCP: true})
	var sentinel fakeSentinel
	sentinel.master.Store(before.Addr())
	// The first of the sentinels is not there.
	proxy := proxytest.Start(t, "redis+sentinel://127.0.0.1:1,"+sentinel.start(t)+"/mymaster/3")
	conn := proxy.Dial(t)
	if got := conn.Do("SET", "k", "before"); got != "+OK\r\n" {
		t.Fatalf("SET = %q", got)
	}
	subscriber := proxy.Dial(t)
	subscriber.Do("SUBSCRIBE", "c")
	host, port, _ := net.SplitHostPort(after.Addr())
	if err := before.Client(t).ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	if got := conn.Do("SET", "k", "after"); !strings.HasPrefix(got, "-") {
		t.Errorf("SET at the replica = %q", got)
	}
	sentinel.master.Store(after.Addr())
	await(t, "writes to go to the new master", func() bool { return conn.Do("SET", "k", "after") == "+OK\r\n" })
	if got := after.Dial(t); got.Do("SELECT", "3") != "+OK\r\n" || got.Do("GET", "k") != bulk("after") {
		t.Error("the write is not in the database of the new master")
	}
	if _, err := subscriber.ReadAll(); err != nil {
		t.Errorf("the subscriber of the old master: %v, want the end", err)
	}
	// Without any sentinel the master is where it was.
	sentinel.master.Store("")
	if got := conn.Do("SELECT", "4"); got != "+OK\r\n" {
		t.Errorf("SELECT without sentinels = %q", got)
	}
}
