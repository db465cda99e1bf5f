package test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestShutdownAnswersWhatIsInFlight ends cellproxy while the upstream holds
// its replies back.
func TestShutdownAnswersWhatIsInFlight(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	admin := redis.Dial(t)
	const clients, commands = 8, 50
	var conns []*wire.Conn
	for i := range clients {
		conn := proxy.Dial(t)
		conn.Do("PING")
		if i == 0 {
			conn.Do("WATCH", "k") // has a private connection
		}
		conns = append(conns, conn)
	}
	if got := admin.Do("CLIENT", "PAUSE", "60000", "WRITE"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	for i, conn := range conns {
		var pipeline [][]string
		for range commands {
			pipeline = append(pipeline, []string{"INCR", fmt.Sprint("key", i)})
		}
		conn.Send(pipeline...)
	}
	awaitPaused(t, admin)
	awaitRead(t, proxy)
	proxy.Terminate()
	awaitRefusal(t, proxy.Addr())
	admin.Do("CLIENT", "UNPAUSE")
	for i, conn := range conns {
		got, err := conn.ReadAll()
		var want strings.Builder
		for n := range commands {
			fmt.Fprintf(&want, ":%d\r\n", n+1)
		}
		if err != nil || got != want.String() {
			t.Errorf("client %d: got %d replies, %v, want %d, then the end: %.200q", i, strings.Count(got, "\n"), err, commands, got)
		}
	}
	proxy.Wait()
}

// awaitPaused waits until the upstream has a write at hand that it may not
// answer, on a shared and on a private connection.
func awaitPaused(t *testing.T, admin *wire.Conn) {
	t.Helper()
	await(t, "the upstream to have the writes", func() bool {
		return strings.Count(admin.Do("CLIENT", "LIST"), " cmd=incr ") == 2
	})
}

// awaitRead waits until cellproxy has taken all that the clients sent.
func awaitRead(t *testing.T, proxy *proxytest.Proxy) {
	t.Helper()
	// A client that comes later and is answered by cellproxy alone shows that
	// the event loop got this far; the kernel hands out bytes in order.
	conn := proxy.Dial(t)
	if got := conn.Do("CL.THROTTLE"); !strings.HasPrefix(got, "-ERR wrong number") {
		t.Fatalf("CL.THROTTLE = %q", got)
	}
	conn.Close()
}

func awaitRefusal(t *testing.T, addr string) {
	t.Helper()
	await(t, "the listening port to be closed", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// await polls until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wire.Patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestShutdownEndsClientsThatWait has clients that no reply is due to.
func TestShutdownEndsClientsThatWait(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	idle, blocked, subscriber, half := proxy.Dial(t), proxy.Dial(t), proxy.Dial(t), proxy.Dial(t)
	idle.Do("PING")
	blocked.Send([]string{"BLPOP", "list", "0"})
	subscriber.Do("SUBSCRIBE", "c")
	half.Write([]byte("*2\r\n$4\r\nECHO\r\n$100\r\nxx"))
	admin := redis.Dial(t)
	await(t, "the blocked client", func() bool {
		return strings.Contains(admin.Do("INFO", "clients"), "blocked_clients:1\r\n")
	})
	begin := time.Now()
	proxy.Stop()
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("shutting down took %v", took)
	}
	for name, conn := range map[string]*wire.Conn{"idle": idle, "blocked": blocked, "subscriber": subscriber, "half": half} {
		if got, err := conn.ReadAll(); err == nil && got != "" && name != "blocked" {
			t.Errorf("%s client got %q at the end", name, got)
		}
	}
	await(t, "the upstream to be left alone", func() bool {
		return strings.Contains(admin.Do("INFO", "clients"), "connected_clients:1\r\n")
	})
}
