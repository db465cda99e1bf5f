package test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// TestBenchCounts has `cellproxy bench` load a cellproxy, and compares what it
// reports with what the limiter, and the upstream, have counted.
func TestBenchCounts(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--requirepass", "secret")
	for _, test := range []struct {
		flags    []string
		requests int
	}{
		{[]string{"-c", "5", "-P", "16", "-n", "1003"}, 1003},
		{[]string{"-c", "20", "-n", "500"}, 500},
		{[]string{"-c", "3", "-P", "4", "--duration", "200ms"}, 0},
	} {
		redis.Client(t).FlushAll(t.Context())
		args := append([]string{"bench", "--addr", proxy.Addr(), "--keys", "1"}, test.flags...)
		args = append(args, "FW.ACQUIRE", "counter:__rand_int__", "1000000000000", "1000000000000")
		stdout, stderr, code := run(t, []string{"CELLPROXY_PASSWORD=secret"}, args...)
		var got int
		if match := regexp.MustCompile(`(?m)^requests +(\d+) in `).FindStringSubmatch(stdout); match != nil {
			fmt.Sscan(match[1], &got)
		}
		if code != 0 || stderr != "" || got == 0 || test.requests != 0 && got != test.requests {
			t.Errorf("cellproxy %q exited with %d:\n%s%s", args, code, stdout, stderr)
		}
		state := redis.Client(t).Get(t.Context(), "counter:"+strings.Repeat("0", 12)).Val()
		if want := fmt.Sprintf("fw:%d ", got); !strings.HasPrefix(state, want) {
			t.Errorf("cellproxy %q reports %d requests, and the limiter's state is %q", args, got, state)
		}
	}
}

// TestBenchTellsOfErrors sees that who only looks at the exit code knows.
func TestBenchTellsOfErrors(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{Password: "secret", TCP: true})
	gone := redistest.Start(t, redistest.Options{TCP: true})
	gone.Kill()
	for _, test := range []struct {
		args     []string
		code     int
		mentions string // on the standard error
		reports  string
	}{
		{[]string{"--addr", redis.URL()}, 1, "--evalsha", "50 ERR unknown command"},
		{[]string{"--addr", redis.URL(), "--evalsha"}, 0, "", "failed    0"},
		{[]string{"--addr", "unix:" + redis.Socket(), "--password", "secret", "SET"}, 0, "", "failed    0"},
		{[]string{"--addr", redis.Addr(), "--user", "default", "--password", "secret", "GET"}, 0, "", "failed    0"},
		{[]string{"--addr", redis.Addr(), "GET"}, 1, "50 requests failed", "50 NOAUTH"},
		{[]string{"--addr", redis.URL(), "LPUSH", "-k"}, 1, "50 requests failed", "50 ERR wrong number"},
		{[]string{"--addr", redis.Addr(), "--password", "wrong"}, 1, "WRONGPASS", ""},
		{[]string{"--addr", gone.Addr()}, 1, "connection refused", ""},
		{[]string{"-c", "0"}, 2, "clients", ""},
		{[]string{"--duration", "0s"}, 2, "duration", ""},
		{[]string{"-n", "5", "--duration", "1s"}, 2, "--duration", ""},
		{[]string{"HGETALL"}, 2, "HGETALL", ""},
		{[]string{"--addr", "http://localhost"}, 2, "http", ""},
	} {
		args := append([]string{"bench", "-c", "2"}, test.args...)
		if test.code != 2 {
			args = append([]string{"bench", "-c", "2", "-n", "50"}, test.args...)
		}
		stdout, stderr, code := run(t, nil, args...)
		if code != test.code || !strings.Contains(stderr, test.mentions) || !strings.Contains(stdout, test.reports) || (stdout == "") != (test.reports == "") {
			t.Errorf("cellproxy %q exited with %d, want %d, %q and %q; it said\n%s%s", args, code, test.code, test.mentions, test.reports, stdout, stderr)
		}
		if lines := strings.Count(stderr, "\n"); lines > 1 || strings.Contains(stdout+stderr, "secret") {
			t.Errorf("cellproxy %q said %d lines on the standard error, or the password:\n%s%s", args, lines, stdout, stderr)
		}
	}
}

// TestBenchShowsProgress on a terminal.
func TestBenchShowsProgress(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	for _, flags := range [][]string{{"--duration", "400ms"}, {"-n", "20000"}} {
		terminal, end, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: 80})
		cmd := proxytest.Command(t, append([]string{"bench", "--addr", "unix:" + redis.Socket(), "--evalsha"}, flags...)...)
		var report bytes.Buffer
		cmd.Stdout, cmd.Stderr = &report, end
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end.Close()
		shown, _ := io.ReadAll(terminal) // ends with an error when nobody has the other end
		terminal.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", flags, err)
		}
		if bar := regexp.MustCompile(`\d+% ?\|[█ ]+\|`); !bar.Match(shown) {
			t.Errorf("%q: the terminal showed no bar: %q", flags, shown)
		}
		if got := report.String(); !strings.HasPrefix(got, "CL.THROTTLE ") || !strings.Contains(got, "\nlatency   p50 ") {
			t.Errorf("%q: the report is\n%s", flags, got)
		}
	}
}
