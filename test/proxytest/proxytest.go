// Package proxytest runs cellproxy as a process of its own for tests.
//
//	proxy := proxytest.Start(t, redis.URL())
//	conn := proxy.Dial(t)
//	conn.Do("CL.THROTTLE", "user123", "15", "30", "60")
//
// The program is built once per test process, with the race detector if the
// test has it. Each process listens on a free loopback port, is shut down when
// the test ends, and fails the test if it crashed, panicked or raced.
package proxytest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"cellproxy/test/wire"
)

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 20 * time.Second
)

// maxAddrs is how many addresses a process may listen on.
const maxAddrs = 16

// signsOfTrouble are what a process must not say.
var signsOfTrouble = []string{"panic", "DATA RACE", "fatal error"}

// listening is the log line that tells the address.
var listening = regexp.MustCompile(`(?:msg=listening .*\baddr="?|"msg":"listening".*"addr":")([^"\s]+)`)

// Proxy is a cellproxy process, or the one that has taken over from it.
type Proxy struct {
	t       testing.TB
	cmd     *exec.Cmd // the first
	pidFile string
	addrs   []string
	exited  chan struct{} // all of them
	killed  bool

	mu     sync.Mutex
	output strings.Builder
}

// Start runs `cellproxy serve` in front of an upstream, or with the embedded
// store if upstreamURL is empty, and waits until it listens.
func Start(t testing.TB, upstreamURL string, flags ...string) *Proxy {
	t.Helper()
	// On a busy machine a server may be silent for a while: that is for the tests
	// to hold against it that are about it.
	cmd := Command(t, "serve", "--listen", "127.0.0.1:0", "--upstream-timeout", "5s")
	if upstreamURL != "" {
		cmd.Args = append(cmd.Args, "--upstream", upstreamURL)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd.Args = append(cmd.Args, "--pid-file", pidFile)
	cmd.Args = append(cmd.Args, flags...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, cmd: cmd, pidFile: pidFile, exited: make(chan struct{})}
	addrs := make(chan string, maxAddrs)
	go func() {
		defer close(p.exited)
		p.listen(stderr, addrs)
		cmd.Wait()
	}()
	t.Cleanup(p.cleanUp)
	for len(p.addrs) < addresses(cmd.Args) {
		select {
		case addr := <-addrs:
			p.addrs = append(p.addrs, addr)
		case <-p.exited:
			t.Fatalf("%s did not start", strings.Join(cmd.Args, " "))
		case <-time.After(startTimeout):
			t.Fatalf("%s does not say that it listens", strings.Join(cmd.Args, " "))
		}
	}
	return p
}

// addresses returns how many addresses the arguments say to listen on.
func addresses(args []string) (n int) {
	for i, arg := range args[1:] {
		if args[i] == "--listen" {
			n += 1 + strings.Count(arg, ",")
		}
	}
	return n
}

// listen keeps what the process says and sends the addresses it listens on.
func (p *Proxy) listen(stderr io.Reader, addrs chan<- string) {
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		p.output.WriteString(line)
		p.mu.Unlock()
		if match := listening.FindStringSubmatch(line); match != nil {
			select {
			case addrs <- match[1]:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) cleanUp() {
	if !p.hasExited() {
		p.Stop()
	} else if code := p.cmd.ProcessState.ExitCode(); code != 0 && !p.killed {
		p.t.Errorf("cellproxy exited with %d", code)
	}
	output := p.Output()
	for _, sign := range signsOfTrouble {
		if strings.Contains(output, sign) {
			p.t.Errorf("cellproxy said %q", sign)
			break
		}
	}
	if p.t.Failed() {
		p.t.Logf("cellproxy said:\n%s", output)
	}
}

func (p *Proxy) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Output returns what the process has logged.
func (p *Proxy) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Addr returns the host:port the process listens on, besides what the flags say.
func (p *Proxy) Addr() string { return p.addrs[0] }

// Addrs returns all that the process listens on, Addr first.
func (p *Proxy) Addrs() []string { return p.addrs }

// adminListening is the log line that tells the address of the admin listener.
var adminListening = regexp.MustCompile(`msg="admin is listening" addr=(\S+)`)

// AdminURL returns the URL of a page of the admin listener.
func (p *Proxy) AdminURL(path string) string {
	p.t.Helper()
	match := adminListening.FindStringSubmatch(p.Output())
	if match == nil {
		p.t.Fatal("there is no admin listener: --admin is missing")
	}
	return "http://" + match[1] + path
}

// PidFile returns the file that the process id is in.
func (p *Proxy) PidFile() string { return p.pidFile }

// Pid returns the process id.
func (p *Proxy) Pid() int {
	var pid int
	text, err := os.ReadFile(p.pidFile)
	if _, scanned := fmt.Sscan(string(text), &pid); err != nil || scanned != nil {
		return p.cmd.Process.Pid // it has not got so far
	}
	return pid
}

// Dial opens a raw connection.
func (p *Proxy) Dial(t testing.TB) *wire.Conn {
	t.Helper()
	return wire.Dial(t, "tcp", p.Addr())
}

// Client returns a client that speaks protocol 2 or 3, never sends a command
// twice, and is closed when the test ends.
func (p *Proxy) Client(t testing.TB, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), Protocol: protocol, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

// Terminate asks the process to shut down and does not wait.
func (p *Proxy) Terminate() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
}

// Wait waits until the process has exited. The test fails if it does not, or
// not with code 0.
func (p *Proxy) Wait() {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		p.t.Errorf("cellproxy does not stop")
		p.signal(syscall.SIGQUIT) // its stacks go to the output
		<-p.exited
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("cellproxy exited with %d", code)
	}
}

// Stop shuts the process down as SIGTERM does.
func (p *Proxy) Stop() {
	p.t.Helper()
	p.Terminate()
	p.Wait()
}

// Kill ends the process at once.
func (p *Proxy) Kill() {
	p.killed = true
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// Upgrade has a new process take over, and returns when it listens. The one
// before may still be at work for the clients it has.
func (p *Proxy) Upgrade() {
	p.t.Helper()
	before := p.Pid()
	p.signal(syscall.SIGUSR2)
	p.awaitOther(before)
}

// AwaitUpgrade waits until another process than the first has taken over.
func (p *Proxy) AwaitUpgrade() {
	p.t.Helper()
	p.awaitOther(p.cmd.Process.Pid)
}

func (p *Proxy) awaitOther(before int) {
	p.t.Helper()
	for deadline := time.Now().Add(startTimeout); p.Pid() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("no new process has taken over")
		}
	}
}

func (p *Proxy) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(p.Pid(), signal); err != nil {
		p.t.Errorf("cannot send %v to cellproxy: %v", signal, err)
	}
}

// Files returns how many file descriptors the process has open.
func (p *Proxy) Files() int {
	p.t.Helper()
	if entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Pid())); err == nil {
		return len(entries)
	}
	out, err := exec.Command("lsof", "-p", fmt.Sprint(p.Pid())).Output()
	if err != nil {
		p.t.Fatalf("cannot count the files of cellproxy: %v", err)
	}
	return strings.Count(string(out), "\n")
}

// Memory returns how many bytes of the process are resident.
func (p *Proxy) Memory() int {
	p.t.Helper()
	var pages, kilobytes int
	if statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Pid())); err == nil {
		var total int
		if _, err := fmt.Sscan(string(statm), &total, &pages); err == nil {
			return pages * os.Getpagesize()
		}
	}
	out, err := exec.Command("ps", "-o", "rss=", "-p", fmt.Sprint(p.Pid())).Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &kilobytes)
	}
	if err != nil {
		p.t.Fatalf("cannot tell the memory of cellproxy: %v", err)
	}
	return kilobytes << 10
}
