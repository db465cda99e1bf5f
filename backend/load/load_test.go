package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/commands"
	"cellproxy/test/certs"
	"cellproxy/test/redistest"
)

func ignore(int64) {}

// small is a load that takes no time to speak of.
func small(url string, command string) Load {
	return Load{
		URL: url, Command: strings.Fields(command), Keys: 10, Clients: 3, Pipeline: 4, Requests: 50, Timeout: 20 * time.Second,
	}
}

// calls is how often a server has run a command.
func calls(t *testing.T, client *redis.Client, command string) (n int64) {
	t.Helper()
	stats := client.Info(t.Context(), "commandstats").Val()
	if _, after, found := strings.Cut(stats, "cmdstat_"+command+":calls="); found {
		if _, err := fmt.Sscanf(after, "%d", &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestCounts compares what is reported with what the server has counted.
func TestCounts(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "secret"})
	client := server.Client(t)
	for _, test := range []struct {
		clients, pipeline int
		requests          int64 // 0: by time
	}{
		{1, 1, 1}, {1, 1, 10}, {7, 16, 5003}, {50, 1, 1000}, {3, 100, 20}, {4, 3, 0}, {2, 500, 5000},
	} {
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		l := small(server.URL()+"?db=3", "SET k:"+Random+" v")
		l.Clients, l.Pipeline, l.Requests, l.Duration = test.clients, test.pipeline, test.requests, 100*time.Millisecond
		var last int64
		report, err := Run(t.Context(), l, func(done int64) { last = max(last, done) })
		if err != nil || report.Failed() != 0 {
			t.Errorf("%+v: %v\n%s", test, err, report)
		}
		if got := calls(t, client, "set"); got != report.Requests || got != last || test.requests != 0 && got != test.requests {
			t.Errorf("%+v: the server has counted %d, the report has %d and the progress ended at %d", test, got, report.Requests, last)
		}
		if test.requests == 0 && report.Took < l.Duration {
			t.Errorf("%+v: done after %v of %v", test, report.Took, l.Duration)
		}
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are in database 0, want them in 3", n)
	}
	if err := client.Do(t.Context(), "SWAPDB", 0, 3).Err(); err != nil {
		t.Fatal(err)
	}
	if n := client.DBSize(t.Context()).Val(); n < 1 || n > 10 {
		t.Errorf("%d keys are in database 3, want 1 to 10", n)
	}
}

// TestPresets runs all of them, and sees that no limiter is without one.
func TestPresets(t *testing.T) {
	for _, command := range commands.All() {
		if Presets[command.Name] == "" {
			t.Errorf("%s has no usual arguments", command.Name)
		}
	}
	server := redistest.Start(t, redistest.Options{})
	for name := range Presets {
		words, err := Complete([]string{strings.ToLower(name)})
		if err != nil {
			t.Fatal(err)
		}
		l := small(server.URL(), strings.Join(words, " "))
		l.EvalSHA = true
		report, err := Run(t.Context(), l, ignore)
		if err != nil || report.Requests != l.Requests || report.Failed() != 0 {
			t.Errorf("%s: %v\n%s", name, err, report)
		}
	}
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	for _, key := range keys {
		if ttl := server.Client(t).PTTL(t.Context(), key).Val(); ttl <= 0 && ttl != -2 || !strings.HasPrefix(key, "bench:") {
			t.Errorf("%s stays, with a TTL of %v", key, ttl)
		}
	}
	if len(keys) == 0 || err != nil {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// TestLimited counts refusals: of 200 on one key, a limit of 30 refuses 170.
func TestLimited(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	l := small(server.URL(), "FW.ACQUIRE k:"+Random+" 30 1000000000")
	l.EvalSHA, l.Keys, l.Requests = true, 1, 200
	report, err := Run(t.Context(), l, ignore)
	if err != nil || report.Requests != 200 || report.Limited != 170 || report.Failed() != 0 {
		t.Errorf("got %d requests, %d limited, %d failed, %v; want 200, 170, 0", report.Requests, report.Limited, report.Failed(), err)
	}
	if text := report.String(); !strings.Contains(text, "limited   170, 85.0 %") || !strings.Contains(text, "requests  200 in") {
		t.Errorf("the report says\n%s", text)
	}
}

// TestErrors has each request be answered with one.
func TestErrors(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "secret"})
	for name, test := range map[string]struct{ url, command, want string }{
		"unknown command": {server.URL(), "CL.THROTTLE k:" + Random + " 15 30 60", "ERR unknown command 'CL.THROTTLE', with args beginning with: 'k:" + Random + "'"},
		"no password":     {strings.Replace(server.URL(), ":secret@", "", 1), "GET k", "NOAUTH"},
	} {
		l := small(test.url, test.command)
		report, err := Run(t.Context(), l, ignore)
		if err != nil || report.Requests != 50 || report.Failed() != 50 || len(report.Errors) != 1 || !strings.Contains(report.String(), "50 "+test.want) {
			t.Errorf("%s: got %v\n%s\nwant 50 errors %q", name, err, report, test.want)
		}
	}
	for name, url := range map[string]string{
		"wrong password": strings.Replace(server.URL(), "secret", "wrong", 1),
		"nobody there":   "unix:///nonexistent/redis.sock",
	} {
		if report, err := Run(t.Context(), small(url, "GET k"), ignore); err == nil || report.Requests != 0 {
			t.Errorf("%s: got %v\n%s", name, err, report)
		}
	}
}

// TestManyKindsOfErrors tells apart so many.
func TestManyKindsOfErrors(t *testing.T) {
	var counted tally
	for i := range 3 * kinds {
		counted.add([]answer{{err: fmt.Sprintf("ERR %d", i)}, {err: fmt.Sprintf("ERR key 0000000000%02d", i)}})
	}
	report := counted.report(Load{Command: []string{"GET"}}, time.Second)
	if len(report.Errors) != kinds+1 || report.Failed() != 6*kinds || report.Errors["ERR key "+Random] != 3*kinds {
		t.Errorf("got %d errors of %d kinds, want %d of %d\n%s", report.Failed(), len(report.Errors), 6*kinds, kinds+1, report)
	}
}

// TestServerDies counts what got no reply.
func TestServerDies(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	l := small(server.URL(), "INCR k")
	l.Requests, l.Duration = 0, time.Minute
	killed := false
	report, err := Run(t.Context(), l, func(done int64) {
		if done > 0 && !killed {
			killed = true
			server.Kill()
		}
	})
	// At most a pipeline of each client had no reply.
	if err != nil || report.Requests == 0 || report.Failed() < 1 || report.Failed() > 12 {
		t.Errorf("got %d answered, %d failed, %v\n%s", report.Requests, report.Failed(), err, report)
	}
	if !strings.Contains(report.String(), "no reply: ") {
		t.Errorf("the report says\n%s", report)
	}
}

// TestInterrupted waits for what is under way, and no longer.
func TestInterrupted(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := small(server.URL(), "INCR k")
	l.Requests, l.Duration = 0, time.Hour
	report, err := Run(ctx, l, func(done int64) {
		if done > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || report.Requests == 0 || report.Failed() != 0 {
		t.Errorf("got %v\n%s", err, report)
	}
	if got := calls(t, server.Client(t), "incr"); got != report.Requests {
		t.Errorf("the server has counted %d, the report %d", got, report.Requests)
	}
}

// TestReplies come in any pieces.
func TestReplies(t *testing.T) {
	const replies = "+OK\r\n$-1\r\n*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:30\r\n-ERR no\r\n*2\r\n*1\r\n$3\r\na\r\n\r\n*-1\r\n:5\r\n$0\r\n\r\n"
	for _, size := range []int{1, 2, 3, 7, len(replies)} {
		here, there := net.Pipe()
		go func() {
			for rest := replies; rest != ""; {
				n := min(size, len(rest))
				io.WriteString(there, rest[:n])
				rest = rest[n:]
			}
			io.WriteString(there, "nonsense\r\n")
			io.Copy(io.Discard, there)
		}()
		go io.Copy(io.Discard, there)
		c := &client{conn: here, template: &template{text: []byte("x"), limiter: true}, out: make([]byte, 8)}
		answers, err := c.pipeline(7, 20*time.Second)
		if err != nil || len(answers) != 7 {
			t.Fatalf("in pieces of %d: got %d replies, %v, want 7", size, len(answers), err)
		}
		for i, a := range answers {
			if want := (answer{took: a.took, limited: i == 2, err: map[int]string{3: "ERR no"}[i]}); a != want {
				t.Errorf("in pieces of %d: reply %d: got %+v, want %+v", size, i, a, want)
			}
		}
		if answers, err := c.pipeline(1, 20*time.Second); !errors.Is(err, errNoReply) {
			t.Errorf("in pieces of %d: nonsense gave %v, %v", size, answers, err)
		}
		here.Close()
		there.Close()
	}
}

// TestTLS shows the certificates that the URL names.
func TestTLS(t *testing.T) {
	server := redistest.Start(t, redistest.Options{TLS: certs.New(t), User: "user", Password: "password"})
	l := small(server.URL(), "INCR k")
	report, err := Run(t.Context(), l, ignore)
	if err != nil || report.Requests != l.Requests || report.Failed() != 0 {
		t.Errorf("got %v\n%s", err, report)
	}
}

// TestTimeout gives up on a server that does not answer.
func TestTimeout(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	l := small(server.URL(), "BLPOP nothing 0")
	l.Clients, l.Pipeline, l.Timeout = 1, 1, 100*time.Millisecond
	report, err := Run(t.Context(), l, ignore)
	if err != nil || report.Failed() != 1 || !strings.Contains(report.String(), "1 no reply: i/o timeout") {
		t.Errorf("got %v\n%s", err, report)
	}
}

// TestRandom fills in numbers of 12 digits below the number of keys, each time
// others, and leaves the rest as it is.
func TestRandom(t *testing.T) {
	words := []string{"MSET", "a:" + Random + ":" + Random, "v", Random + "z", "w"}
	filled, err := newTemplate(Load{Command: words, Keys: 25})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	seen := make(map[int]bool)
	for range 1000 {
		filled.fill(filled.text, random)
		var n [3]int
		text := strings.ReplaceAll(string(filled.text), "\r\n", " ")
		if _, err := fmt.Sscanf(text, "*5 $4 MSET $27 a:%012d:%012d $1 v $13 %012dz $1 w ", &n[0], &n[1], &n[2]); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for _, i := range n {
			seen[i] = true
			if i < 0 || i >= 25 {
				t.Fatalf("%q has %d", text, i)
			}
		}
	}
	if len(seen) != 25 {
		t.Errorf("3000 random numbers below 25 were %d different ones", len(seen))
	}
}

func TestCheck(t *testing.T) {
	for _, l := range []Load{
		{URL: "http://localhost", Command: []string{"GET"}},
		{URL: "redis://localhost/x", Command: []string{"GET"}},
		{URL: "redis://localhost", Command: []string{"CL.THROTTLE", "k"}, EvalSHA: true},
	} {
		if l.Check() == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	if words, err := Complete([]string{"HGETALL"}); err == nil {
		t.Errorf("HGETALL has the usual arguments %q", words)
	}
}
