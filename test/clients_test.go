package test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// clientTime is how long a client may take for all that it does.
const clientTime = time.Minute

// TestClientsOfOtherLanguages has clients do what is in their script.
func TestClientsOfOtherLanguages(t *testing.T) {
	node, python := nodeWithClients(t), pythonWithRedis(t)
	for _, x := range []struct {
		name    string
		command []string
		more    []string
	}{
		{"ioredis", []string{node, "clients/ioredis.js"}, nil},
		{"node-redis RESP2", []string{node, "clients/node_redis.js"}, []string{"2"}},
		{"node-redis RESP3", []string{node, "clients/node_redis.js"}, []string{"3"}},
		{"redis-py", []string{python, "clients/redis_py.py"}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			proxy := proxytest.Start(t, redistest.Start(t, redistest.Options{}).URL())
			host, port, _ := strings.Cut(proxy.Addr(), ":")
			ctx, cancel := context.WithTimeout(t.Context(), clientTime)
			defer cancel()
			args := slices.Concat(x.command[1:], []string{host, port}, x.more)
			out, err := exec.CommandContext(ctx, x.command[0], args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "\nblocking\n") {
				t.Errorf("%v after\n%s", err, out)
			}
		})
	}
}

// nodeWithClients returns the node that the clients in clients/node_modules run
// with.
func nodeWithClients(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: `apt-get install nodejs npm`, `brew install node`, or https://nodejs.org; " +
			"then `npm ci` in test/clients")
	}
	for _, client := range []string{"ioredis", "redis"} {
		if _, err := os.Stat("clients/node_modules/" + client); err != nil {
			t.Fatalf("%s is not installed: `npm ci` in test/clients, or `make test`, which does it", client)
		}
	}
	return node
}

// pythonWithRedis returns a Python that has redis-py.
func pythonWithRedis(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import redis").Run() == nil {
			return python
		}
	}
	t.Fatal("redis-py is not installed: `apt-get install python3-redis` or `python3 -m pip install redis`")
	return ""
}

func TestGoRedis(t *testing.T) {
	proxy := proxytest.Start(t, redistest.Start(t, redistest.Options{}).URL())
	for _, protocol := range []int{2, 3} {
		client := func(t *testing.T) *redis.Client {
			client := redis.NewClient(&redis.Options{
				Addr: proxy.Addr(), Protocol: protocol, ClientName: "go-redis", MaxRetries: -1,
			})
			t.Cleanup(func() { client.Close() })
			return client
		}
		for name, part := range map[string]func(*testing.T, *redis.Client, *redis.Client){
			"commands": goRedisCommands, "pipelines": goRedisPipelines, "transactions": goRedisTransactions,
			"messages": goRedisMessages, "blocking": goRedisBlocking,
		} {
			t.Run(name+" RESP"+string(rune('0'+protocol)), func(t *testing.T) {
				one, other := client(t), client(t)
				must(t, one.FlushAll(t.Context()).Err())
				part(t, one, other)
			})
		}
		if protocol == 3 {
			t.Run("tracking", func(t *testing.T) { goRedisTracking(t, client(t), client(t)) })
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func goRedisCommands(t *testing.T, client, _ *redis.Client) {
	ctx := t.Context()
	must(t, client.Set(ctx, "k", "v", time.Minute).Err())
	if got, err := client.Get(ctx, "k").Result(); got != "v" || err != nil {
		t.Errorf("GET = %q, %v", got, err)
	}
	if err := client.Get(ctx, "nosuch").Err(); err != redis.Nil {
		t.Errorf("GET of nothing: %v, want redis.Nil", err)
	}
	if err := client.Incr(ctx, "k").Err(); err == nil || !strings.Contains(err.Error(), "not an integer") {
		t.Errorf("INCR of a word: %v", err)
	}
	must(t, client.HSet(ctx, "h", "a", "1", "b", "2").Err())
	if got := client.HGetAll(ctx, "h").Val(); len(got) != 2 || got["a"] != "1" || got["b"] != "2" {
		t.Errorf("HGETALL = %v", got)
	}
	if got := client.Do(ctx, "CL.THROTTLE", "limit", 4, 10, 100, 5).String(); !strings.HasSuffix(got, "[0 5 0 -1 50]") {
		t.Error(got)
	}
	info, err := client.Command(ctx).Result()
	if c := info["cl.throttle"]; err != nil || c == nil || c.Arity != -5 || c.FirstKeyPos != 1 || c.LastKeyPos != 1 || c.ReadOnly {
		t.Errorf("COMMAND knows of CL.THROTTLE: %+v, %v", c, err)
	}
	if got := client.ClientGetName(ctx).Val(); got != "go-redis" {
		t.Errorf("CLIENT GETNAME = %q", got)
	}
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	for want := 5; want <= 10; want += 5 {
		if got, err := add.Run(ctx, client, []string{"s"}, 5).Int(); got != want || err != nil {
			t.Errorf("script = %d, %v, want %d", got, err, want)
		}
	}
}

func goRedisPipelines(t *testing.T, client, _ *redis.Client) {
	ctx := t.Context()
	replies, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 1000 {
			p.Incr(ctx, "count")
		}
		p.Do(ctx, "CL.THROTTLE", "limit", 15, 30, 60)
		return nil
	})
	must(t, err)
	for i, reply := range replies[:1000] {
		if got := reply.(*redis.IntCmd).Val(); got != int64(i+1) {
			t.Fatalf("INCR number %d = %d", i+1, got)
		}
	}
	if got := replies[1000].String(); !strings.HasSuffix(got, "[0 16 15 -1 2]") {
		t.Error(got)
	}
}

func goRedisTransactions(t *testing.T, client, other *redis.Client) {
	ctx := t.Context()
	replies, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "t", 1, 0)
		p.Incr(ctx, "t")
		p.Do(ctx, "CL.THROTTLE", "limit", 15, 30, 60)
		return nil
	})
	must(t, err)
	if got := replies[2].String(); replies[1].(*redis.IntCmd).Val() != 2 || !strings.HasSuffix(got, "[0 16 15 -1 2]") {
		t.Error(replies)
	}
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		must(t, other.Set(ctx, "t", 10, 0).Err())
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, "t").Err() })
		return err
	}, "t")
	if !errors.Is(err, redis.TxFailedErr) {
		t.Errorf("a watched key was changed: %v, want %v", err, redis.TxFailedErr)
	}
	if got := client.Get(ctx, "t").Val(); got != "10" {
		t.Errorf("GET = %q, want 10", got)
	}
}

func goRedisMessages(t *testing.T, subscriber, publisher *redis.Client) {
	ctx := t.Context()
	messages := subscriber.Subscribe(ctx, "channel")
	defer messages.Close()
	must(t, messages.PSubscribe(ctx, "chan*"))
	for range 2 { // confirmations
		_, err := messages.Receive(ctx)
		must(t, err)
	}
	if got := publisher.Publish(ctx, "channel", "hello").Val(); got != 2 {
		t.Errorf("PUBLISH = %d, want 2", got)
	}
	for range 2 {
		if got, err := messages.ReceiveMessage(ctx); err != nil || got.Channel != "channel" || got.Payload != "hello" {
			t.Errorf("message %v, %v", got, err)
		}
	}
	must(t, messages.Ping(ctx))
	if got, err := messages.Receive(ctx); err != nil || got.(*redis.Pong) == nil {
		t.Errorf("PING = %v, %v", got, err)
	}
}

func goRedisBlocking(t *testing.T, client, other *redis.Client) {
	popped := make(chan []string)
	go func() { popped <- client.BLPop(context.Background(), 10*time.Second, "list").Val() }()
	must(t, other.LPush(t.Context(), "list", "x").Err())
	if got := <-popped; !slices.Equal(got, []string{"list", "x"}) {
		t.Errorf("BLPOP = %q", got)
	}
}

// invalidated counts the keys that the server says have changed.
type invalidated struct{ atomic.Int64 }

func (i *invalidated) HandlePushNotification(context.Context, push.NotificationHandlerContext, []any) error {
	i.Add(1)
	return nil
}

func goRedisTracking(t *testing.T, client, other *redis.Client) {
	ctx := t.Context()
	var count invalidated
	must(t, client.RegisterPushNotificationHandler("invalidate", &count, false))
	conn := client.Conn()
	defer conn.Close()
	must(t, conn.Do(ctx, "CLIENT", "TRACKING", "ON").Err())
	for want := int64(1); want <= 3; want++ {
		conn.Get(ctx, "k")
		must(t, other.Set(ctx, "k", want, 0).Err())
		await(t, "the client to be told of the change", func() bool {
			must(t, conn.Ping(ctx).Err())
			return count.Load() == want
		})
	}
}

// TestRedisCLI is somebody at a terminal.
func TestRedisCLI(t *testing.T) {
	proxy := proxytest.Start(t, redistest.Start(t, redistest.Options{}).URL())
	host, port, _ := strings.Cut(proxy.Addr(), ":")
	cmd := exec.Command("redis-cli", "-h", host, "-p", port)
	cmd.Env = append(os.Environ(), "TERM=xterm", "HOME="+t.TempDir())
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 200})
	must(t, err)
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		terminal.Close()
	}()
	shown := &screen{}
	go shown.follow(terminal)
	for _, x := range []struct{ typed, shown string }{
		{"", proxy.Addr() + "> "},
		{"cl.throttle ", "key max_burst count period [quantity]"},
		{"user123 15", " count period [quantity]"},
		{" 30 60\r", "1) (integer) 0\r\n2) (integer) 16\r\n3) (integer) 15\r\n4) (integer) -1\r\n5) (integer) 2\r\n"},
		{"fw.a\t", "FW.ACQUIRE"},
		{"\x15help cl.throttle\r", "as redis-cell does."},
		{"set k ", "value [NX|XX]"},
		{"v\r", "OK\r\n"},
		{"subscribe c\r", "1) \"subscribe\"\r\n2) \"c\"\r\n3) (integer) 1\r\n"},
	} {
		shown.clear()
		_, err := terminal.WriteString(x.typed)
		must(t, err)
		await(t, "redis-cli to show "+x.shown+" after "+x.typed, func() bool { return shown.has(x.shown) })
	}
}

// screen is what a terminal has been sent since it was cleared.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) follow(terminal io.Reader) {
	b := make([]byte, 4096)
	for {
		n, err := terminal.Read(b)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.text.Write(b[:n])
		s.mu.Unlock()
	}
}

func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text.Len() > 0 {
		s.text.Reset()
	}
}

func (s *screen) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}
