package test

import (
	"debug/elf"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// fileInDocs returns a file of docs, and sees that the page about running shows
// it.
func fileInDocs(t *testing.T, name, language string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(blocks(pages(t)["running.md"]), block{language, string(text)}) {
		t.Errorf("docs/running.md does not show docs/%s as it is", name)
	}
	return string(text)
}

// shutdownTimeout is how long serve takes to end, at the most.
func shutdownTimeout(t *testing.T) time.Duration {
	t.Helper()
	help, _, _ := run(t, nil, "serve", "--help")
	match := regexp.MustCompile(`--shutdown-timeout .*\(default ([^)]+)\)`).FindStringSubmatch(help)
	if match == nil {
		t.Fatal("serve has no --shutdown-timeout")
	}
	timeout, err := time.ParseDuration(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return timeout
}

// TestSystemdUnit does what systemd would do by the unit.
func TestSystemdUnit(t *testing.T) {
	unit := make(map[string]string)
	for _, line := range strings.Split(fileInDocs(t, "cellproxy.service", "ini"), "\n") {
		if name, value, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") {
			unit[name] = value
		}
	}
	start, is := strings.CutPrefix(unit["ExecStart"], "/usr/local/bin/cellproxy serve --listen 127.0.0.1:6380 ")
	if !is || start != "--pid-file "+unit["PIDFile"] {
		t.Errorf("ExecStart is %q", unit["ExecStart"])
	}
	if seconds, err := strconv.Atoi(unit["TimeoutStopSec"]); err != nil || time.Duration(seconds)*time.Second <= shutdownTimeout(t) {
		t.Errorf("systemd waits for %q, and cellproxy needs up to %v", unit["TimeoutStopSec"], shutdownTimeout(t))
	}
	redis := redistest.Start(t, redistest.Options{TCP: true})
	t.Setenv("CELLPROXY_UPSTREAM", redis.URL())
	proxy := proxytest.Start(t, "")
	proxy.Dial(t).Do("SET", "k", "v")
	if got := redis.Client(t).Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("GET at the upstream = %q, want v", got)
	}
	reload := exec.Command("sh", "-c", strings.ReplaceAll(unit["ExecReload"], "$MAINPID", strconv.Itoa(proxy.Pid())))
	if out, err := reload.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", unit["ExecReload"], err, out)
	}
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(proxy.Output(), "msg=reloaded"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not reloaded")
		}
	}
	proxy.Upgrade()
	if got := proxy.Dial(t).Do("GET", "k"); got != bulk("v") {
		t.Errorf("GET after the upgrade = %q", got)
	}
}

// imageFlag has TestDockerImage build the program, which takes minutes where it has
// never been done.
var imageFlag = flag.Bool("image", false, "build the program of the Docker image")

// TestDockerImage does what the Dockerfile says. The program must need no other
// file, as the image has none.
func TestDockerImage(t *testing.T) {
	text := fileInDocs(t, "Dockerfile", "dockerfile")
	build := regexp.MustCompile(`(?m)^RUN CGO_ENABLED=0 (go build .*)$`).FindStringSubmatch(text)
	words := func(instruction string) []string {
		match := regexp.MustCompile(`(?m)^` + instruction + ` \["(.*)"\]$`).FindStringSubmatch(text)
		if match == nil {
			t.Fatalf("the Dockerfile has no %s", instruction)
		}
		return strings.Split(match[1], `", "`)
	}
	if build == nil || !strings.Contains(text, "\nFROM scratch\n") {
		t.Fatal("the Dockerfile does not build for scratch")
	}
	if *imageFlag {
		needsNothing(t, strings.Replace(build[1], "-o "+words("ENTRYPOINT")[0], "-o ", 1))
	} else {
		// What is written in Go alone can be built, and needs nothing.
		forScratch(t, "go list -deps -f '{{with .Error}}{{.}}{{end}}{{join .CgoFiles \" \"}}' ./cmd/cellproxy")
	}
	serve, is := strings.CutPrefix(strings.Join(words("CMD"), " "), "serve --listen 0.0.0.0:6380")
	if !is || serve != "" {
		t.Errorf("CMD is %q", words("CMD"))
	}
	// Open to the network, it insists on a password.
	if _, stderr, code := run(t, nil, words("CMD")...); code != 2 || !strings.Contains(stderr, "password") {
		t.Errorf("without a password it exits with %d: %q", code, stderr)
	}
}

// forScratch runs a command that must say nothing, without C and for Linux.
func forScratch(t *testing.T, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// needsNothing builds the program and looks for libraries that it needs.
func needsNothing(t *testing.T, build string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cellproxy")
	forScratch(t, strings.Replace(build, "-o ", "-buildvcs=false -o "+program, 1))
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("the program needs libraries: it has a %v", part.Type)
		}
	}
}

// deployment is what the test looks at of the Kubernetes example.
type deployment struct {
	Spec struct {
		Template struct {
			Spec struct {
				Grace          int         `yaml:"terminationGracePeriodSeconds"`
				InitContainers []container `yaml:"initContainers"`
				Containers     []container
			}
		}
	}
}

type container struct {
	Name, Image   string
	RestartPolicy string `yaml:"restartPolicy"`
	Args          []string
	Env           []struct{ Name, Value string }
	StartupProbe  struct {
		Exec struct{ Command []string }
	} `yaml:"startupProbe"`
}

// TestSidecar runs the sidecar with its arguments, and its probe, and sees that
// the application looks for it where it is.
func TestSidecar(t *testing.T) {
	var d deployment
	if err := yaml.Unmarshal([]byte(fileInDocs(t, "sidecar.yaml", "yaml")), &d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		t.Fatalf("the pod is %+v", pod)
	}
	sidecar, app := pod.InitContainers[0], pod.Containers[0]
	if sidecar.RestartPolicy != "Always" {
		t.Errorf("the sidecar is restarted %q: it is none", sidecar.RestartPolicy)
	}
	if time.Duration(pod.Grace)*time.Second <= shutdownTimeout(t) {
		t.Errorf("Kubernetes waits for %d s, and cellproxy needs up to %v", pod.Grace, shutdownTimeout(t))
	}
	listen, is := strings.CutPrefix(strings.Join(sidecar.Args, " "), "serve --listen ")
	u, err := url.Parse(app.Env[0].Value)
	if !is || err != nil || u.Host != listen {
		t.Errorf("the application looks for %q, and the sidecar has %q", app.Env[0].Value, sidecar.Args)
	}
	redis := redistest.Start(t, redistest.Options{Password: "secret", TCP: true})
	t.Setenv(sidecar.Env[0].Name, redis.URL())
	proxy := proxytest.Start(t, "")
	probe := sidecar.StartupProbe.Exec.Command
	if probe[0] != "/cellproxy" {
		t.Errorf("the probe runs %q", probe)
	}
	at := []string{"CELLPROXY_ADDR=" + proxy.Addr()}
	if _, stderr, code := run(t, at, probe[1:]...); code != 0 {
		t.Errorf("the probe exits with %d while all is well: %s", code, stderr)
	}
	redis.Kill()
	if _, _, code := run(t, at, probe[1:]...); code != 1 {
		t.Errorf("the probe exits with %d while there is no Redis, want 1", code)
	}
	if err := syscall.Kill(proxy.Pid(), 0); err != nil {
		t.Errorf("cellproxy is gone: %v", err)
	}
}
