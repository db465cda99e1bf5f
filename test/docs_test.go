package test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cellproxy/test/certs"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// block is a fenced block of a page.
type block struct{ language, text string }

// pages returns the README and the pages of docs, by their names.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, path := range append(paths, "../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = string(text)
	}
	return texts
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks returns the fenced blocks of a page in their order.
func blocks(page string) (found []block) {
	for _, match := range fence.FindAllStringSubmatch(page, -1) {
		found = append(found, block{match[1], match[2]})
	}
	return found
}

// Languages of blocks: those that are run here, and those that other tests look
// at, or nobody needs to.
var (
	runLanguages   = []string{"sh", "console"}
	otherLanguages = []string{"", "ini", "dockerfile", "yaml"}
)

// TestDocsCommands runs every command of the README and the docs, page by page
// in their order, as somebody would who tries out one after the other: "sh" is
// run, and has to succeed, of "console" what is shown has to come out.
func TestDocsCommands(t *testing.T) {
	for name, text := range pages(t) {
		t.Run(name, func(t *testing.T) {
			s := newSitting(t)
			for _, b := range blocks(text) {
				switch {
				case b.language == "sh":
					for _, command := range shellCommands(b.text) {
						s.run(command)
					}
				case b.language == "console":
					for _, example := range strings.Split(b.text, "$ ")[1:] {
						command, want, _ := strings.Cut(example, "\n")
						if got := s.run(command); got != want {
							t.Errorf("%s\n%swant\n%s", command, got, want)
						}
					}
				case !slices.Contains(otherLanguages, b.language):
					t.Errorf("nobody knows how to test a block of %s: take one of %s", b.language, append(runLanguages, otherLanguages...))
				}
			}
		})
	}
}

// shellCommands are the commands of a block, without comments. One may go on in
// the next line.
func shellCommands(text string) (commands []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commands = append(commands, line)
		}
	}
	return commands
}

// sitting is what somebody has who reads a page: two Redis servers, which the
// pages have at ports 6379 and 6381, and a cellproxy at 6380 from when it is
// first needed.
type sitting struct {
	t            *testing.T
	redis, other *redistest.Server
	cluster      *redistest.Cluster // from when it is first needed
	secure       *redistest.Server  // with TLS, from when it is first needed
	watched      *redistest.Watched // by a sentinel, from when it is first needed
	proxy        *proxytest.Proxy
	standIns     string // directory with programs
	installed    string // directory in the place of the system's
}

func newSitting(t *testing.T) *sitting {
	return &sitting{
		t: t, redis: redistest.Start(t, redistest.Options{TCP: true}), other: redistest.Start(t, redistest.Options{TCP: true}),
		standIns: standIns(t), installed: t.TempDir(),
	}
}

// standIns are in the place of programs that need what a test does not have.
// What they are given with -f has to be a file.
func standIns(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const script = "#!/bin/sh\nfor word; do [ \"$before\" != -f ] || [ -f \"$word\" ] || exit 1; before=$word; done\n"
	for _, name := range []string{"docker", "kubectl", "systemctl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a command and returns what it says. It must succeed.
func (s *sitting) run(command string) string {
	s.t.Helper()
	if strings.HasPrefix(command, "make ") {
		return s.make(command)
	}
	if strings.HasPrefix(command, "cellproxy ") { // it is installed
		command = "./bin/" + command
	}
	if args, is := strings.CutPrefix(command, "./bin/cellproxy serve"); is {
		s.serve(args)
		return ""
	}
	out := s.shell(s.translate(command))
	if strings.HasPrefix(command, "kill -USR2") {
		s.proxy.AwaitUpgrade()
	}
	return out
}

// make has make tell what it would do: of that, a cellproxy is started.
func (s *sitting) make(command string) string {
	s.t.Helper()
	would := s.shell(strings.Replace(command, "make ", "make --no-print-directory -n ", 1))
	for _, line := range strings.Split(would, "\n") {
		if args, is := strings.CutPrefix(line, "./bin/cellproxy serve"); is {
			s.serve(args)
		}
	}
	return ""
}

// serve starts a cellproxy in the place of the one before.
func (s *sitting) serve(args string) {
	s.t.Helper()
	if s.proxy != nil {
		s.proxy.Stop()
	}
	// It gets an address and a pid file anyway.
	args = strings.NewReplacer("--listen 127.0.0.1:6380,", "--listen ", "--listen 127.0.0.1:6380", "",
		"0.0.0.0:6390", "localhost:0", "--pid-file "+pidFile, "").Replace(args)
	flags := strings.Fields(s.shell("printf '%s\\n' " + s.translate(args)))
	s.proxy = proxytest.Start(s.t, "", flags...)
	if got := s.proxy.Dial(s.t).Do("PING"); strings.HasPrefix(got, "-ERR upstream") {
		s.t.Errorf("cellproxy serve%s: PING = %q", args, got)
	}
}

func (s *sitting) shell(command string) string {
	s.t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "PATH="+s.standIns+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=20")
	if s.proxy != nil {
		cmd.Env = append(cmd.Env, "CELLPROXY_ADDR="+s.proxy.Addr())
	}
	if !strings.Contains(command, "--duration") {
		cmd.Env = append(cmd.Env, "CELLPROXY_REQUESTS=500") // bench need not take long
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// secureURL is how the pages write that of a Redis with TLS that wants a
// certificate.
var secureURL = regexp.MustCompile(`rediss://user:password@redis\.example:6379[^"' ]*tls_key=[^"' ]*`)

// sentinelURL is how the pages write that of sentinels.
var sentinelURL = regexp.MustCompile(`redis\+sentinel://[^"' ]*/mymaster`)

// pidFile is where the pages have that of cellproxy.
const pidFile = "/run/cellproxy/cellproxy.pid"

// translate puts what there is in the place of what the pages say.
func (s *sitting) translate(command string) string {
	s.t.Helper()
	const (
		cluster   = "redis+cluster://10.0.0.1:6379,10.0.0.2:6379"
		sentinels = "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/mymaster"
	)
	if strings.Contains(command, cluster) && s.cluster == nil {
		s.cluster = redistest.StartCluster(s.t, 3, 0)
	}
	binary := proxytest.Command(s.t).Path
	replace := []string{
		"./bin/cellproxy", binary, " bin/cellproxy", " " + binary, "--duration 10s", "--duration 100ms",
		"/usr/local/bin/", s.installed + "/", "/etc/systemd/system/", s.installed + "/", "/etc/", s.installed + "/",
	}
	if strings.Contains(command, "server.pem") {
		authority := certs.New(s.t)
		pair := authority.Issue(s.t, "server")
		replace = append(replace, "server.pem", pair.Cert, "server.key", pair.Key, "clients.pem", authority.File)
	}
	if s.proxy != nil {
		replace = append(replace, pidFile, s.proxy.PidFile())
	}
	if s.cluster != nil {
		replace = append(replace, cluster, s.cluster.URL())
	}
	if strings.Contains(command, sentinels) {
		replace = append(replace, sentinels, redistest.StartWatched(s.t, 1, 3).URL())
	}
	if url := secureURL.FindString(command); url != "" {
		if s.secure == nil {
			s.secure = redistest.Start(s.t, redistest.Options{TLS: certs.New(s.t), User: "user", Password: "password"})
		}
		replace = append(replace, url, s.secure.URL())
	}
	if url := sentinelURL.FindString(command); url != "" {
		if s.watched == nil {
			s.watched = redistest.StartWatched(s.t, 0, 1)
		}
		replace = append(replace, url, s.watched.URL())
	}
	replace = append(replace, s.at("6379", s.redis.Addr())...)
	replace = append(replace, s.at("6381", s.other.Addr())...)
	if strings.Contains(command, "6380") || strings.Contains(command, "cellproxy bench") {
		if s.proxy == nil {
			s.serve(" --upstream redis://127.0.0.1:6379")
		}
		replace = append(replace, s.at("6380", s.proxy.Addr())...)
	}
	return strings.NewReplacer(replace...).Replace(command)
}

// at are the replacements for an address of the pages, which is on 127.0.0.1.
// Answers of redis-cli are shown as on a terminal.
func (s *sitting) at(port, addr string) []string {
	s.t.Helper()
	_, now, err := net.SplitHostPort(addr)
	if err != nil {
		s.t.Fatal(err)
	}
	return []string{
		"127.0.0.1:" + port, addr, "127.0.0.1 " + port, "127.0.0.1 " + now,
		"redis-cli -p " + port, "redis-cli --no-raw -p " + now,
	}
}
