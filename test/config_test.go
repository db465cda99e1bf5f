package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cellproxy/test/proxytest"
)

// configFile writes a file for --config.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cellproxy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigPrecedence sees that flags win over the environment and that over
// the file, and that no password is printed.
func TestConfigPrecedence(t *testing.T) {
	file := configFile(t, `# a comment
max-clients: 1
client-output-limit: 2
write-timeout: 3s
refuse: [DEBUG, KEYS]
requirepass: 0123456
unprotected: yes please
upstream: "redis://:hush@127.0.0.1:1/3"
`)
	_, stderr, code := run(t, nil, "serve", "--config", file, "--unprotected")
	if want := "cellproxy: invalid --config " + file + ":7: unprotected: neither true nor false\n"; stderr != want || code != 2 {
		t.Errorf("got %q and code %d, want %q and 2", stderr, code, want)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	file = configFile(t, strings.Replace(string(text), "yes please", "true", 1))
	stdout, stderr, code := run(t, []string{"CELLPROXY_CONFIG=" + file, "CELLPROXY_CLIENT_OUTPUT_LIMIT=20", "CELLPROXY_WRITE_TIMEOUT=30s", "CELLPROXY_REFUSE=SAVE"},
		"serve", "--print-config", "--write-timeout", "300s")
	for _, want := range []string{
		"max-clients: 1 # " + file + "\n", "client-output-limit: 20 # CELLPROXY_CLIENT_OUTPUT_LIMIT\n", "write-timeout: 5m0s # --write-timeout\n",
		"refuse: [SAVE] # CELLPROXY_REFUSE\n", "requirepass: xxxxx # ", "upstream: redis://:xxxxx@127.0.0.1:1/3 # ", "unprotected: true # ", "listen: ['127.0.0.1:6380'] # default\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("printed %s without %q", stdout, want)
		}
	}
	if stderr != "" || code != 0 || strings.Contains(stdout, "hush") || strings.Contains(stdout, "0123456") {
		t.Errorf("exited with %d, said %q and %s", code, stderr, stdout)
	}
	again, _, _ := run(t, nil, "serve", "--config", configFile(t, stdout), "--print-config")
	if got, want := withoutComments(again), withoutComments(stdout); got != want {
		t.Errorf("what was printed reads as\n%s, want\n%s", got, want)
	}
}

func withoutComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " #")
		kept.WriteString(strings.TrimSpace(line) + "\n")
	}
	return kept.String()
}

// TestConfigMistakes sees that there is one line about each that says where.
func TestConfigMistakes(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"listen: 127.0.0.1:0\nlisten-backlog: 5\n", ":2: listen-backlog: no such setting"},
		{"config: other.yaml\n", ":1: config: no such setting"},
		{"max-clients: 1\nmax-clients: 2\n", ":2: max-clients: is there twice"},
		{"max-clients: many\n", ":1: max-clients: not a whole number"},
		{"max-clients: [1, 2]\n", ":1: max-clients: not a whole number"},
		{"refuse: {DEBUG: true}\n", ":1: refuse: not a list of words"},
		{"\nwrite-timeout:\n", ":2: write-timeout: not a duration such as 10s"},
		{"- listen\n", ":1: not a list of names and values"},
		{"max-clients: 1\n---\nmax-clients: 2\n", ": more than one document"},
		{"listen: \"127\n", "line 2"},
		{"max-clients: 0\n", "invalid --max-clients"},
		{"log-format: xml\n", "invalid --log-format"},
		{"log-level: loud\n", "invalid --log-level"},
	} {
		file := configFile(t, test.text)
		_, stderr, code := run(t, nil, "serve", "--config", file)
		if code != 2 || !strings.HasPrefix(stderr, "cellproxy: invalid --") || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: got %q and code %d, want %q in one line and 2", test.text, stderr, code, test.want)
		}
	}
	for _, text := range []string{"", "# nothing\n"} {
		if _, stderr, code := run(t, nil, "serve", "--config", configFile(t, text), "--print-config"); code != 0 {
			t.Errorf("%q: got %q and code %d", text, stderr, code)
		}
	}
}

// TestConfigIsReadAgain changes what can change, and some that can't.
func TestConfigIsReadAgain(t *testing.T) {
	file := configFile(t, "max-clients: 1\nlog-format: json\nlog-level: info\n")
	proxy := proxytest.Start(t, "", "--config", file)
	reload := func(text, say string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := strings.Count(proxy.Output(), say)
		syscall.Kill(proxy.Pid(), syscall.SIGHUP)
		await(t, "the file to be read", func() bool { return strings.Count(proxy.Output(), say) > before })
	}
	const full = "-ERR max number of clients reached\r\n"
	first := proxy.Dial(t)
	first.Do("PING")
	if got, err := proxy.Dial(t).ReadAll(); got != full || err != nil {
		t.Errorf("the second of 1 clients got %q, %v, want %q", got, err, full)
	}
	reload("max-clients: 5\nrefuse: [echo]\nlog-format: text\npid-file: elsewhere\n", "reloaded")
	if got := proxy.Dial(t).Do("PING"); got != "+PONG\r\n" {
		t.Errorf("the second of 5 clients got %q", got)
	}
	if got, want := first.Do("ECHO", "x"), "-ERR ECHO is not supported by cellproxy\r\n"; got != want {
		t.Errorf("ECHO = %q, want %q", got, want)
	}
	if got := proxy.Output(); !strings.Contains(got, `"settings":"log-format"`) {
		t.Errorf("it does not say that the log format stays: %s", got)
	}
	reload("max-clients: 5\nno-such: 1\n", "not reloaded")
	if got, want := first.Do("ECHO", "x"), "-ERR ECHO is not supported by cellproxy\r\n"; got != want {
		t.Errorf("after a mistake: ECHO = %q, want %q", got, want)
	}
	count := strings.Count(proxy.Output(), `"reloaded"`)
	reload("log-level: warn\nlog-format: text\n", "some settings")
	reload("log-level", "not reloaded")
	if got := strings.Count(proxy.Output(), `"reloaded"`); got != count {
		t.Errorf("it logged what is less than a warning")
	}
	for line := range strings.Lines(proxy.Output()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
	}
}

// TestReloadOpensNothing takes the password from a proxy that others can reach,
// with a leave that comes too late: it is for the start.
func TestReloadOpensNothing(t *testing.T) {
	file := configFile(t, "requirepass: hush\n")
	proxy := proxytest.Start(t, "", "--listen", "0.0.0.0:0", "--config", file)
	if err := os.WriteFile(file, []byte("unprotected: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(proxy.Pid(), syscall.SIGHUP)
	await(t, "the file to be read", func() bool { return strings.Contains(proxy.Output(), "reloaded") })
	if got := proxy.Dial(t).Do("PING"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("a client without a password got %q", got)
	}
}

// TestReadmeConfig sees that the files that the README shows are ones.
func TestReadmeConfig(t *testing.T) {
	for _, block := range readmeBlocks(t, "yaml") {
		if _, stderr, code := run(t, nil, "serve", "--config", configFile(t, block), "--print-config"); code != 0 {
			t.Errorf("%s: %q and code %d", block, stderr, code)
		}
	}
}

// TestNoPasswordIsLogged has upstream URLs that can't be parsed.
func TestNoPasswordIsLogged(t *testing.T) {
	for _, scheme := range []string{"redis", "redis+cluster"} {
		_, stderr, code := run(t, nil, "serve", "--upstream", scheme+"://user:hu sh@127.0.0.1:1%zz/")
		if code != 2 || !strings.Contains(stderr, "invalid upstream URL") || strings.Contains(stderr, "hu sh") {
			t.Errorf("got %q and code %d", stderr, code)
		}
	}
}
