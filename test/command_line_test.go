package test

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// run runs cellproxy to its end.
func run(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := proxytest.Command(t, args...)
	cmd.Env = append(cmd.Env, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

func TestWrongUsageIsOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	for _, test := range []struct {
		args, env []string
		code      int
		mentions  string
	}{
		{[]string{"serve", "--nosuch"}, nil, 2, "--nosuch"},
		{[]string{"serve", "--max-clients", "many"}, nil, 2, "max-clients"},
		{[]string{"serve", "--max-clients", "-1"}, nil, 2, "max-clients"},
		{[]string{"serve", "--idle-timeout", "-1s"}, nil, 2, "idle-timeout"},
		{[]string{"serve", "--pubsub-output-limit", "32mb 8mb"}, nil, 2, "pubsub-output-limit"},
		{[]string{"serve", "--listen", "nonsense"}, nil, 2, "listen"},
		{[]string{"serve", "--listen", "0.0.0.0:0"}, nil, 2, "listen"},
		{[]string{"serve", "--listen", "127.0.0.1:0,0.0.0.0:0"}, nil, 2, "0.0.0.0:0"},
		{[]string{"serve", "--listen", "127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"}, nil, 2, "twice"},
		{[]string{"serve", "--listen", "unix://"}, nil, 2, "no path"},
		{[]string{"serve", "--listen", ""}, nil, 2, "--listen"},
		{[]string{"serve", "--unix-socket-perm", "778"}, nil, 2, "--unix-socket-perm"},
		{[]string{"serve", "--upstream", "http://localhost"}, nil, 2, "upstream"},
		{[]string{"serve", "--upstream", "redis://localhost/notadb"}, nil, 2, "upstream"},
		{[]string{"serve", "--upstream", "redis://localhost?tls_ca=x"}, nil, 2, "rediss://"},
		{[]string{"serve", "--upstream", "rediss://localhost?tls_ca=nosuch"}, nil, 2, "nosuch"},
		{[]string{"serve", "--upstream", "rediss://localhost?tls_cert=nosuch"}, nil, 2, "tls_cert"},
		{[]string{"serve", "--upstream", "redis+sentinel://localhost,localhost:1"}, nil, 2, "name"},
		{[]string{"serve", "--upstream", "redis+sentinel://localhost/mymaster?sentinel_pasword=x"}, nil, 2, "sentinel_pasword"},
		{[]string{"serve", "--listen", "tls://localhost:0"}, nil, 2, "--tls-cert"},
		{[]string{"serve", "--tls-cert", "x"}, nil, 2, "tls://"},
		{[]string{"serve", "--listen", "tls://localhost:0", "--tls-cert", "nosuch", "--tls-key", "x"}, nil, 2, "nosuch"},
		{[]string{"serve", "--tls-min-version", "1.1"}, nil, 2, "1.1"},
		{[]string{"serve", "--deny-cache"}, nil, 2, "--upstream"},
		{[]string{"serve", "--deny-cache", "--upstream", "redis+cluster://localhost:1"}, nil, 2, "cluster"},
		{[]string{"serve", "extra"}, nil, 2, "extra"},
		{[]string{"nosuch"}, nil, 2, "nosuch"},
		{[]string{"version", "extra"}, nil, 2, "extra"},
		{[]string{"doctor"}, nil, 2, "--upstream"},
		{[]string{"doctor", "--upstream", "http://localhost"}, nil, 2, "upstream"},
		{[]string{"doctor", "--upstream", "redis://localhost", "--samples", "0"}, nil, 2, "samples"},
		{[]string{"serve"}, []string{"CELLPROXY_MAX_CLIENTS=many"}, 2, "CELLPROXY_MAX_CLIENTS"},
		{[]string{"serve", "--listen", taken.Addr().String()}, nil, 1, "address already in use"},
		{[]string{"serve", "--listen", "unix://command_line_test.go"}, nil, 1, "address already in use"},
	} {
		stdout, stderr, code := run(t, test.env, test.args...)
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		last := lines[len(lines)-1]
		if code != test.code || !strings.HasPrefix(last, "cellproxy: ") || !strings.Contains(last, test.mentions) || stdout != "" {
			t.Errorf("cellproxy %q (env %q) exited with %d, said %q and %q; want %d and one line about %s",
				test.args, test.env, code, stderr, stdout, test.code, test.mentions)
		}
		if test.code == 2 && len(lines) != 1 {
			t.Errorf("cellproxy %q said %d lines: %q", test.args, len(lines), stderr)
		}
	}
}

func TestVersionHelpAndCompletion(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "cellproxy "},
		{[]string{"--help"}, "serve"},
		{[]string{"serve", "--help"}, "--upstream"},
		{[]string{"completion", "bash"}, "bash completion"},
		{[]string{"completion", "zsh"}, "#compdef cellproxy"},
		{[]string{"completion", "fish"}, "fish completion"},
	} {
		stdout, stderr, code := run(t, nil, test.args...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, test.want) {
			t.Errorf("cellproxy %q exited with %d, said %q; %.200q should contain %q", test.args, code, stderr, stdout, test.want)
		}
	}
}

// TestFlagsFromTheEnvironment sees that variables count and flags win.
func TestFlagsFromTheEnvironment(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{Password: "secret"})
	t.Setenv("CELLPROXY_LISTEN", "nonsense") // proxytest gives the flag
	t.Setenv("CELLPROXY_UPSTREAM", redis.URL())
	t.Setenv("CELLPROXY_MAX_CLIENTS", "2")
	proxy := proxytest.Start(t, "")
	first := proxy.Dial(t)
	if got := first.Do("SET", "k", "v"); got != "+OK\r\n" {
		t.Errorf("SET = %q", got)
	}
	direct := redis.Dial(t)
	direct.Do("AUTH", "secret")
	if got := direct.Do("GET", "k"); got != bulk("v") {
		t.Errorf("GET at the upstream = %q", got)
	}
	proxy.Dial(t).Do("PING")
	third, err := proxy.Dial(t).ReadAll()
	if want := "-ERR max number of clients reached\r\n"; err != nil || third != want {
		t.Errorf("the third of 2 clients got %q, %v, want %q", third, err, want)
	}
}
