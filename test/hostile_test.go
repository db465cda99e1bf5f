package test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// memoryLimit is far above what cellproxy needs for a few clients, and far
// below what it would need to believe what they say will come.
const memoryLimit = 400 << 20

// TestHostileBytes connects with 10,000 streams of broken protocol.
func TestHostileBytes(t *testing.T) {
	const streams, clients = 10_000, 16
	redis := redistest.Start(t, redistest.Options{Args: []string{"--proto-max-bulk-len", "1mb"}})
	proxy := proxytest.Start(t, redis.URL())
	canary := proxy.Dial(t)
	canary.Do("PING")
	files := proxy.Files()
	seed := newRand(t).Uint64()
	var next atomic.Uint64
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			for n := next.Add(1); n <= streams; n = next.Add(1) {
				rng := rand.New(rand.NewPCG(seed, n))
				if err := attack(proxy.Addr(), hostileStream(rng)); err != nil {
					t.Errorf("stream %d: %v", n, err)
					return
				}
			}
		})
	}
	work.Wait()
	if got := canary.Do("PING"); got != "+PONG\r\n" {
		t.Errorf("a client that was there all the time: PING = %q", got)
	}
	if got := proxy.Dial(t).Do("CL.THROTTLE", "after", "15", "30", "60"); got != integers(0, 16, 15, -1, 2) {
		t.Errorf("the next client: CL.THROTTLE = %q", got)
	}
	if memory := proxy.Memory(); memory > memoryLimit {
		t.Errorf("cellproxy has %d MB", memory>>20)
	}
	awaitFiles(t, proxy, files+1)
}

// awaitFiles waits until the process has no more files open than that, and
// some for private connections to the upstream that wait to be used again.
func awaitFiles(t *testing.T, proxy *proxytest.Proxy, most int) {
	t.Helper()
	const idlePrivate = 64
	for deadline := time.Now().Add(wire.Patience); proxy.Files() > most+idlePrivate; {
		if time.Now().After(deadline) {
			t.Fatalf("cellproxy has %d files open, want at most %d", proxy.Files(), most+idlePrivate)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// attack sends a stream and waits until cellproxy is done with it.
func attack(addr string, stream []byte) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(wire.Patience))
	conn.Write(stream) // cellproxy may have hung up by now
	conn.(*net.TCPConn).CloseWrite()
	_, err = io.Copy(io.Discard, conn)
	if err != nil && !strings.Contains(err.Error(), "reset by peer") {
		return fmt.Errorf("after %.200q: %w", stream, err)
	}
	return nil
}

// hostileStream returns nonsense, or sense that was damaged.
func hostileStream(rng *rand.Rand) []byte {
	if rng.IntN(4) == 0 {
		return randomBytes(rng)
	}
	stream := wire.Encode(generated(rng, allCommands, 1+rng.IntN(8))...)
	for range rng.IntN(6) {
		stream = damage(rng, stream)
	}
	return stream
}

// protocolPieces is what random streams are made of.
var protocolPieces = []string{
	"*", "$", "\r\n", "\n", "\r", "*1\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n", "$0\r\n\r\n", "$4\r\nPING\r\n", "PING\r\n", " ",
	"*9223372036854775807\r\n", "$9223372036854775807\r\n", "*1048576\r\n", "$536870912\r\n", "*1000000000\r\n",
	"-1", "0", "1", "9", "\"", "'", "\x00", "\xff", ":1\r\n", "+OK\r\n", "%1\r\n", "\"\\x", "EVAL", "MULTI\r\n", "EXEC\r\n",
}

func randomBytes(rng *rand.Rand) []byte {
	var b []byte
	for range rng.IntN(40) {
		if rng.IntN(3) == 0 {
			b = append(b, byte(rng.IntN(256)))
		} else {
			b = append(b, protocolPieces[rng.IntN(len(protocolPieces))]...)
		}
	}
	return b
}

// damage changes a stream in one place.
func damage(rng *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at := rng.IntN(len(b))
	switch rng.IntN(5) {
	case 0:
		return b[:at]
	case 1:
		b[at] = byte(rng.IntN(256))
		return b
	case 2:
		return slices.Delete(b, at, min(len(b), at+1+rng.IntN(5)))
	case 3:
		return slices.Insert(b, at, []byte(protocolPieces[rng.IntN(len(protocolPieces))])...)
	default:
		return slices.Insert(b, at, b[:min(len(b), 50)]...)
	}
}

// TestPromisesOfBytesCostNothing has many clients announce the most that may
// be announced and send next to nothing of it.
func TestPromisesOfBytesCostNothing(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	before := proxy.Memory()
	for i := range 200 {
		conn := proxy.Dial(t)
		promise := "*1048576\r\n$3\r\nSET\r\n$536870912\r\nx"
		if i%2 == 0 {
			promise = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n" + strings.Repeat("x", 1000)
		}
		if _, err := conn.Write([]byte(promise)); err != nil {
			t.Fatal(err)
		}
	}
	if got := proxy.Dial(t).Do("PING"); got != "+PONG\r\n" {
		t.Errorf("PING = %q", got)
	}
	if grown := proxy.Memory() - before; grown > 100<<20 {
		t.Errorf("200 promises cost %d MB", grown>>20)
	}
}

// TestIdleClientsAreCheap has many clients that have said something once.
func TestIdleClientsAreCheap(t *testing.T) {
	const clients = 3000
	const most = 24 << 10 // each; the race detector takes half of it
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	before := proxy.Memory()
	for range clients {
		if got := proxy.Dial(t).Do("PING"); got != "+PONG\r\n" {
			t.Fatalf("PING = %q", got)
		}
	}
	grown := (proxy.Memory() - before) / clients
	t.Logf("%d bytes each", grown)
	if grown > most {
		t.Errorf("an idle client takes %d bytes, want at most %d", grown, most)
	}
}

// TestClientThatDoesNotRead asks for far more than it takes.
func TestClientThatDoesNotRead(t *testing.T) {
	const limit = 8 << 20
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL(), "--client-output-limit", fmt.Sprint(limit))
	other := proxy.Dial(t)
	other.Do("SET", "big", strings.Repeat("x", 1<<20))
	before := proxy.Memory()
	greedy := proxy.Dial(t)
	get := wire.Encode([]string{"GET", "big"})
	for err := error(nil); err == nil; { // until cellproxy hangs up or reads no more
		greedy.SetWriteDeadline(time.Now().Add(2 * time.Second))
		_, err = greedy.Conn.Write(get)
	}
	if got := other.Do("PING"); got != "+PONG\r\n" {
		t.Errorf("PING of another client = %q", got)
	}
	if grown := proxy.Memory() - before; grown > memoryLimit {
		t.Errorf("one client that does not read costs %d MB", grown>>20)
	}
}

// TestCrossProtocolScripting sends what browsers can be made to send. It must
// not reach the upstream, where it ends the connection everybody shares.
func TestCrossProtocolScripting(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	other := proxy.Dial(t)
	other.Do("SET", "k", "0")
	const increments = 2000
	var commands [][]string
	for range increments {
		commands = append(commands, []string{"INCR", "k"})
	}
	other.Send(commands...)
	for range 20 {
		if err := attack(proxy.Addr(), []byte("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nINCR k\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range increments {
		if got, want := other.Reply(), fmt.Sprintf(":%d\r\n", i+1); got != want {
			t.Fatalf("INCR %d of another client: got %q, want %q", i, got, want)
		}
	}
	if strings.Contains(proxy.Output(), "connection lost") {
		t.Error("the upstream connection was lost")
	}
}
