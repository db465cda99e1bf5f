package main

import (
	"bytes"
	"os/exec"
	"sync"
	"time"
)

// startTimeout is how long a server may take until it serves.
const startTimeout = 20 * time.Second

// child is a server that the bench has started.
type child struct {
	cmd    *exec.Cmd
	said   output
	exited chan struct{}
}

func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &c.said, &c.said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.exited)
		cmd.Wait()
	}()
	return c, nil
}

// await polls until the server serves. If it never does it is gone afterwards.
func (c *child) await(serves func() bool) bool {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if serves() {
			return true
		}
		select {
		case <-c.exited:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
	c.kill()
	return false
}

// kill ends the server and waits until it is gone.
func (c *child) kill() {
	if c != nil {
		c.cmd.Process.Kill()
		<-c.exited
	}
}

func (c *child) process() process {
	return process(c.cmd.Process.Pid)
}

// output keeps what a server says.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
