package test

import (
	"strings"
	"testing"

	"cellproxy/test/redistest"
)

// TestDoctor sees that the exit code tells what the lines do.
func TestDoctor(t *testing.T) {
	fit := redistest.Start(t, redistest.Options{Password: "secret", TCP: true})
	host, port, _ := strings.Cut(fit.Addr(), ":")
	replica := redistest.Start(t, redistest.Options{Args: []string{"--replicaof", host + " " + port, "--masterauth", "secret"}})
	evicting := redistest.Start(t, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	for _, test := range []struct {
		args, env []string
		code      int
		says      string // a line of its output begins with this
	}{
		{[]string{"--upstream", fit.URL()}, nil, 0, "ok    limiter "},
		{nil, []string{"CELLPROXY_UPSTREAM=" + fit.URL()}, 0, "ok    limiter "},
		{[]string{"--upstream", evicting.URL()}, nil, 0, "warn  eviction "},
		{[]string{"--upstream", replica.URL()}, nil, 1, "FAIL  role "},
		{[]string{"--upstream", "redis://" + fit.Addr()}, nil, 1, "FAIL  connection "},
	} {
		args := append([]string{"doctor", "--samples", "10", "--upstream-timeout", "20s"}, test.args...)
		stdout, stderr, code := run(t, test.env, args...)
		if code != test.code || !strings.Contains("\n"+stdout, "\n"+test.says) {
			t.Errorf("cellproxy %q exited with %d, want %d and a line %q…; it said\n%s%s", args, code, test.code, test.says, stdout, stderr)
		}
		if got, want := strings.Count(stderr, "\n"), test.code; got != want {
			t.Errorf("cellproxy %q: %q on the standard error, want %d lines", args, stderr, want)
		}
		if strings.Contains(stdout+stderr, "secret") {
			t.Errorf("cellproxy %q tells the password:\n%s%s", args, stdout, stderr)
		}
	}
}
