package redistest

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestStart(t *testing.T) {
	for name, options := range map[string]Options{
		"plain":    {},
		"password": {Password: "s3cret/@:"},
		"tcp":      {TCP: true},
		"args":     {Args: []string{"--databases", "3"}},
		"clock":    {FakeClock: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := Start(t, options)
			parsed, err := redis.ParseURL(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			client := redis.NewClient(parsed)
			t.Cleanup(func() { client.Close() })
			if got, err := client.Echo(context.Background(), "hi").Result(); err != nil || got != "hi" {
				t.Errorf("ECHO hi at %s = %q, %v", server.URL(), got, err)
			}
		})
	}
}

func TestServerIsGoneAfterTheTest(t *testing.T) {
	var pid int
	var dir string
	t.Run("server", func(t *testing.T) {
		server := Start(t, Options{})
		pid, dir = server.Pid(), server.dir
		server.Freeze()
	})
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestRestartKeepsTheAddress(t *testing.T) {
	server := Start(t, Options{TCP: true})
	client := server.Client(t)
	if err := client.Set(context.Background(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	url, pid := server.URL(), server.Pid()
	server.Restart()
	if server.URL() != url || server.Pid() == pid {
		t.Errorf("restarted as %s, process %d, was %s, process %d", server.URL(), server.Pid(), url, pid)
	}
	if n, err := client.DBSize(context.Background()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE = %d, %v after a restart, want 0", n, err)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	server := Start(t, Options{})
	conn := server.Dial(t)
	server.Freeze()
	conn.Send([]string{"PING"})
	conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("a frozen server sent %d bytes", n)
	}
	server.Thaw()
	if got := conn.Reply(); got != "+PONG\r\n" {
		t.Errorf("PING after Thaw = %q", got)
	}
}

func TestSetClockRulesTimeAndExpiry(t *testing.T) {
	server := Start(t, Options{FakeClock: true})
	conn := server.Dial(t)
	server.SetClock(1_800_000_000_123_456_789)
	if got, want := conn.Do("TIME"), "*2\r\n$10\r\n1800000000\r\n$6\r\n123456\r\n"; got != want {
		t.Errorf("TIME = %q, want %q", got, want)
	}
	conn.Do("SET", "k", "v", "PX", "1000")
	for _, step := range []struct {
		nanos      int64
		pttl, eval string
	}{
		{1_800_000_000_123_456_789, ":1000\r\n", ":1000\r\n"},
		{1_800_000_000_623_456_789, ":500\r\n", ":500\r\n"},
		{1_800_000_001_122_999_999, ":1\r\n", ":1\r\n"},
		{1_800_000_001_124_000_000, ":-2\r\n", ":-2\r\n"},
	} {
		server.SetClock(step.nanos)
		if got := conn.Do("PTTL", "k"); got != step.pttl {
			t.Errorf("at %d PTTL = %q, want %q", step.nanos, got, step.pttl)
		}
		if got := conn.Do("EVAL", "return redis.call('PTTL', KEYS[1])", "1", "k"); got != step.eval {
			t.Errorf("at %d PTTL in a script = %q, want %q", step.nanos, got, step.eval)
		}
	}
}
