package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudflare/tableflip"
)

// upgrade lets a new process take over the listening sockets of this one: on
// SIGUSR2 the program is started again, with its arguments, from the file that
// is there by then. When that one listens, this one is told to end. The socket
// is the same, so no client is refused meanwhile. Where the system can't do
// that, it only listens.
type upgrade struct {
	flip   *tableflip.Upgrader // nil where there is none
	open   func(network, addr string) (net.Listener, error)
	log    *slog.Logger
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	task   sync.WaitGroup
}

// newUpgrade watches for SIGUSR2 until close. open opens sockets that are not
// there yet.
func newUpgrade(pidFile string, open func(network, addr string) (net.Listener, error), log *slog.Logger) (*upgrade, error) {
	u := &upgrade{open: open, log: log}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	flip, err := tableflip.New(tableflip.Options{PIDFile: pidFile})
	if errors.Is(err, tableflip.ErrNotSupported) && pidFile == "" {
		return u, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot prepare to be upgraded: %w", err)
	}
	u.flip = flip
	u.task.Go(u.watch)
	return u, nil
}

// listen opens a socket, or has it from the process before.
func (u *upgrade) listen(network, addr string) (net.Listener, error) {
	if u.flip == nil {
		return u.open(network, addr)
	}
	return u.flip.ListenWithCallback(network, addr, u.open)
}

// ready tells the process before, if there is one, to end.
func (u *upgrade) ready() error {
	if u.flip == nil {
		return nil
	}
	return u.flip.Ready()
}

// replaced is closed when a new process has taken over.
func (u *upgrade) replaced() <-chan struct{} {
	if u.flip == nil {
		return nil
	}
	return u.flip.Exit()
}

func (u *upgrade) watch() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	defer signal.Stop(signals)
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-signals:
			u.start()
		}
	}
}

// start has a new process take over, once the one before is gone.
func (u *upgrade) start() {
	u.log.Info("starting a new process to take over")
	u.flip.WaitForParent(u.ctx) // however that one ended
	if err := u.flip.Upgrade(); err != nil {
		u.log.Error("the new process did not take over", "err", err)
	}
}

// close ends the watch. A socket that nobody has taken over is not listened on
// any more. It may be called twice.
func (u *upgrade) close() {
	u.cancel()
	if u.flip != nil {
		u.flip.Stop()
		<-u.flip.Exit()
	}
	u.task.Wait()
}
