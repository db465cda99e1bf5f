package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout is how long a server may take until it answers.
const startTimeout = 20 * time.Second

// portAttempts is how often another TCP port is tried when one is taken.
const portAttempts = 20

// process is one life of a server.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// kill ends the process, frozen or not, and waits until it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// start starts the server and waits until it answers. A port may be anybody's
// between being found free and being listened on, so a server that can't have
// its port tries another.
func (s *Server) start() {
	s.t.Helper()
	wanted := s.port
	for range portAttempts {
		if (s.options.TCP || s.options.TLS != nil) && wanted == 0 {
			s.port = s.options.firstPort() + rand.IntN(10000) // below the range outgoing connections use
		}
		s.launch()
		if s.await() {
			return
		}
		s.process = nil
		if !strings.Contains(s.output.String(), "Address already in use") {
			break
		}
	}
	s.t.Fatalf("redis-server did not start:\n%s", s.output.String())
}

func (s *Server) launch() {
	s.t.Helper()
	port, tlsPort := s.port, 0
	if s.options.TLS != nil {
		port, tlsPort = 0, s.port
	}
	cmd := exec.Command("redis-server", "--port", fmt.Sprint(port), "--bind", "127.0.0.1",
		"--unixsocket", s.Socket(), "--dir", s.dir, "--save", "", "--appendonly", "no", "--loglevel", "warning")
	if tlsPort != 0 {
		cmd.Args = append(cmd.Args, "--tls-port", fmt.Sprint(tlsPort), "--tls-ca-cert-file", s.options.TLS.File,
			"--tls-cert-file", s.pair.Cert, "--tls-key-file", s.pair.Key)
	}
	if s.options.User != "" {
		cmd.Args = append(cmd.Args, "--user", s.options.User, "on", ">"+s.options.Password, "~*", "&*", "+@all")
	} else if s.options.Password != "" {
		cmd.Args = append(cmd.Args, "--requirepass", s.options.Password)
	}
	cmd.Args = append(cmd.Args, s.options.Args...)
	if s.clock != nil {
		cmd.Env = append(os.Environ(), s.clock.env...)
	}
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		cmd.Wait()
	}()
	s.process = p
}

// await polls until the server answers. It reports false if that does not
// come to pass.
func (s *Server) await() bool {
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.Socket(), Password: s.password(), Protocol: 2, MaxRetries: -1,
	})
	defer client.Close()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if client.Ping(context.Background()).Err() == nil {
			return true
		}
		if s.process.hasExited() {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	s.process.kill()
	return false
}

// Running reports whether the server has not been killed.
func (s *Server) Running() bool { return s.process != nil }

// Pid returns the server's process id.
func (s *Server) Pid() int {
	return s.process.cmd.Process.Pid
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() {
	s.process.kill()
	s.process = nil
}

// Restart kills the server if it runs and starts it again at the same address.
// Its data is gone, unless Options.Args made it persist.
func (s *Server) Restart() {
	s.t.Helper()
	if s.process != nil {
		s.Kill()
	}
	s.start()
}

// Freeze stops the server from running; its connections stay open.
func (s *Server) Freeze() {
	s.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen server run on.
func (s *Server) Thaw() {
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(signal os.Signal) {
	s.t.Helper()
	if err := s.process.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// output keeps what a server says.
type output struct {
	mu sync.Mutex
	b  []byte
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b = append(o.b, b...)
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b)
}
