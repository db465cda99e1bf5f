package test

import (
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestListenOnSeveralAddresses serves on TCP and unix sockets at once, hands all
// of them to a new process, and leaves none behind.
func TestListenOnSeveralAddresses(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	socket, other := redis.Socket()+".proxy", redis.Socket()+".other"
	proxy := proxytest.Start(t, redis.URL(), "--listen", "localhost:0,unix://"+socket, "--listen", "unix:"+other, "--unix-socket-perm", "700")
	addrs := proxy.Addrs()
	if len(addrs) != 4 || addrs[2] != "unix://"+socket || addrs[3] != "unix://"+other {
		t.Fatalf("cellproxy listens on %q", addrs)
	}
	for _, path := range []string{socket, other} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the socket %s is %v, %v, want rwx------", path, info, err)
		}
	}
	incrOnAll := func(when string) {
		for _, addr := range addrs {
			network := "tcp"
			if path, ok := strings.CutPrefix(addr, "unix://"); ok {
				network, addr = "unix", path
			}
			// The process before may have taken a connection just when it ended.
			await(t, "a reply "+when+" on "+addr, func() bool {
				conn := wire.Dial(t, network, addr)
				conn.Write(wire.Encode([]string{"INCR", "n"}))
				reply, err := conn.ReadReply()
				return err == nil && strings.HasPrefix(reply, ":")
			})
		}
	}
	incrOnAll("at first")
	proxy.Upgrade()
	incrOnAll("after an upgrade")
	proxy.Stop()
	for _, path := range []string{socket, other} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
	}
}

// TestListenOnDeadSocket has a process before that was killed, and one that lives.
func TestListenOnDeadSocket(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	socket := redis.Socket() + ".proxy"
	before := proxytest.Start(t, redis.URL(), "--listen", "unix://"+socket)
	_, stderr, code := run(t, nil, "serve", "--listen", "unix://"+socket)
	if code != 1 || !strings.Contains(stderr, "address already in use") {
		t.Errorf("beside one that lives: code %d, %q", code, stderr)
	}
	before.Kill()
	if info, err := os.Stat(socket); err != nil || info.Mode().Type() != fs.ModeSocket {
		t.Fatalf("nothing is left: %v, %v", info, err)
	}
	proxytest.Start(t, redis.URL(), "--listen", "unix://"+socket)
	if got := wire.Dial(t, "unix", socket).Do("PING"); got != "+PONG\r\n" {
		t.Errorf("PING = %q", got)
	}
}

// TestClientsOfAllAddressesAreCountedTogether reaches the limit on one address
// by clients of another.
func TestClientsOfAllAddressesAreCountedTogether(t *testing.T) {
	proxy := proxytest.Start(t, "", "--listen", "localhost:0", "--max-clients", "2")
	var conns []net.Conn
	for range 2 {
		conn := proxy.Dial(t)
		conn.Do("PING")
		conns = append(conns, conn)
	}
	got, err := wire.Dial(t, "tcp", proxy.Addrs()[1]).ReadAll()
	if want := "-ERR max number of clients reached\r\n"; err != nil || got != want {
		t.Errorf("the third of 2 clients got %q, %v, want %q", got, err, want)
	}
	conns[0].Close()
	await(t, "the place of one who has left", func() bool {
		return wire.Dial(t, "tcp", proxy.Addrs()[1]).Do("PING") == "+PONG\r\n"
	})
}
