package test

import (
	"fmt"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// exchange is a command and the reply it must have.
type exchange struct {
	command []string
	want    string
}

// mixed returns n commands of all sorts: forwarded, limiters, answered by
// cellproxy alone, refused here and there, in transactions and in other
// databases. The limiter's burst is n-1 and its clock stands still.
func mixed(n int) []exchange {
	var all []exchange
	add := func(want string, command ...string) {
		all = append(all, exchange{command, want})
	}
	limiterLeft := n
	throttle := func() (string, []string) {
		limiterLeft--
		reset := int64(n-limiterLeft) * 60 / 60
		return integers(0, int64(n), int64(limiterLeft), -1, reset),
			[]string{"CL.THROTTLE", "limiter", fmt.Sprint(n - 1), "60", "60"}
	}
	for i := 0; len(all) < n; i++ {
		number := fmt.Sprint(i)
		switch i % 12 {
		case 0, 1:
			want, command := throttle()
			add(want, command...)
		case 2:
			add(bulk(number), "ECHO", number)
		case 3:
			add("-ERR wrong number of arguments for 'cl.throttle' command\r\n", "CL.THROTTLE", number)
		case 4:
			add("+OK\r\n", "SET", "k", number)
			add(bulk(number), "GET", "k")
		case 5:
			add("-ERR Cell error: Store error: Zero rates are not supported\r\n", "CL.THROTTLE", "limiter", "1", "0", "1")
		case 6:
			add("-ERR unknown command 'NOSUCH', with args beginning with: '"+number+"' \r\n", "NOSUCH", number)
		case 7:
			add("+OK\r\n", "MULTI")
			add("+QUEUED\r\n", "ECHO", number)
			want, command := throttle()
			add("+QUEUED\r\n", command...)
			add("*2\r\n"+bulk(number)+want, "EXEC")
		case 8:
			add("+OK\r\n", "SELECT", "1")
			add("+OK\r\n", "SET", "k", "one"+number)
			add("+OK\r\n", "SELECT", "0")
		case 9:
			add("+OK\r\n", "CLIENT", "SETNAME", "n"+number)
			add(bulk("n"+number), "CLIENT", "GETNAME")
		case 10:
			add("*2\r\n"+bulk("x"+number)+bulk("y"), "EVAL", "return{ARGV[1],'y'}", "0", "x"+number)
		case 11:
			add("$-1\r\n", "GET", "nosuch")
			add("+PONG\r\n", "PING")
		}
	}
	return all[:n]
}

// TestPipelineInOneWrite sends 10,000 commands at once and reads the replies
// only then.
func TestPipelineInOneWrite(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{FakeClock: true})
	for protocol, hello := range map[string]string{"RESP2": "2", "RESP3": "3"} {
		t.Run(protocol, func(t *testing.T) {
			redis.Dial(t).Do("FLUSHALL")
			conn := proxytest.Start(t, redis.URL()).Dial(t)
			conn.Do("HELLO", hello)
			var commands [][]string
			work := mixed(10_000)
			for _, x := range work {
				commands = append(commands, x.command)
			}
			written := make(chan error, 1)
			go func() {
				_, err := conn.Write(wire.Encode(commands...))
				written <- err
			}()
			for i, x := range work {
				want := x.want
				if hello == "3" {
					want = strings.ReplaceAll(want, "$-1\r\n", "_\r\n")
				}
				if got := conn.Reply(); got != want {
					t.Fatalf("reply %d to %q: got %q, want %q", i, x.command, got, want)
				}
			}
			if err := <-written; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPipelinesOfManyClients has clients' pipelines share one upstream stream.
func TestPipelinesOfManyClients(t *testing.T) {
	const clients, commands = 32, 2000
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	errs := make(chan error)
	for client := range clients {
		conn := proxy.Dial(t)
		go func() { errs <- countUp(conn, fmt.Sprint("key", client), commands) }()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// countUp increments a key that is nobody else's in one pipeline.
func countUp(conn *wire.Conn, key string, n int) error {
	var b []byte
	for range n {
		b = append(b, wire.Encode([]string{"INCR", key}, []string{"ECHO", key})...)
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	for i := range n {
		for _, want := range []string{fmt.Sprintf(":%d\r\n", i+1), bulk(key)} {
			got, err := conn.ReadReply()
			if err != nil || got != want {
				return fmt.Errorf("%s, pair %d: got %q, %v, want %q", key, i, got, err, want)
			}
		}
	}
	return nil
}

// TestLimiterInATransaction sees that a limiter in MULTI counts when EXEC says
// so, in the database and for the user that is selected.
func TestLimiterInATransaction(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{FakeClock: true})
	proxy := proxytest.Start(t, redis.URL())
	direct, conn := redis.Dial(t), proxy.Dial(t)
	throttle := []string{"CL.THROTTLE", "k", "15", "30", "60"}
	for _, step := range []exchange{
		{[]string{"MULTI"}, "+OK\r\n"},
		{throttle, "+QUEUED\r\n"},
		{[]string{"CL.THROTTLE", "k"}, "-ERR wrong number of arguments for 'cl.throttle' command\r\n"},
	} {
		if got := conn.Do(step.command...); got != step.want {
			t.Fatalf("%q = %q, want %q", step.command, got, step.want)
		}
	}
	if got := conn.Do("EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
		t.Errorf("EXEC after a command that was refused = %q, want EXECABORT", got)
	}
	if got := direct.Do("EXISTS", "k"); got != ":0\r\n" {
		t.Errorf("EXISTS = %q after an aborted transaction", got)
	}
	for _, step := range []exchange{
		{[]string{"SELECT", "5"}, "+OK\r\n"},
		{[]string{"WATCH", "k"}, "+OK\r\n"},
		{throttle, integers(0, 16, 15, -1, 2)},
		{[]string{"MULTI"}, "+OK\r\n"},
		{throttle, "+QUEUED\r\n"},
		{[]string{"EXEC"}, "*-1\r\n"},
		{[]string{"MULTI"}, "+OK\r\n"},
		{throttle, "+QUEUED\r\n"},
		{[]string{"DEL", "k"}, "+QUEUED\r\n"},
		{throttle, "+QUEUED\r\n"},
		{[]string{"EXEC"}, "*3\r\n" + integers(0, 16, 14, -1, 4) + ":1\r\n" + integers(0, 16, 15, -1, 2)},
		{throttle, integers(0, 16, 14, -1, 4)},
	} {
		if got := conn.Do(step.command...); got != step.want {
			t.Fatalf("%q = %q, want %q", step.command, got, step.want)
		}
	}
	direct.Do("SELECT", "5")
	if got := direct.Do("EXISTS", "k"); got != ":1\r\n" {
		t.Errorf("EXISTS in database 5 = %q", got)
	}
}

// TestPipelinesWhileCalmingDown has a client do something out of the ordinary
// again and again, and between that send pipelines of all lengths. That it is
// served another way by then must not lose a command.
func TestPipelinesWhileCalmingDown(t *testing.T) {
	conn := proxytest.Start(t, redistest.Start(t, redistest.Options{}).URL()).Dial(t)
	for n := 1; n < 300; n++ {
		if n%30 == 0 {
			conn.Do("SELECT", "0")
		}
		pings := make([][]string, n)
		for i := range pings {
			pings[i] = []string{"PING"}
		}
		conn.Send(pings...)
		for i, got := range conn.Replies(n) {
			if got != "+PONG\r\n" {
				t.Fatalf("reply %d of %d: %q", i, n, got)
			}
		}
	}
}
