package test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"cellproxy/test/certs"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// secureProxy is a cellproxy that also listens with TLS.
type secureProxy struct {
	*proxytest.Proxy
	authority *certs.Authority
	shown     certs.Pair
}

func startSecure(t *testing.T, upstream string, flags ...string) *secureProxy {
	t.Helper()
	p := &secureProxy{authority: certs.New(t)}
	p.shown = p.authority.Issue(t, "first")
	flags = append([]string{"--listen", "tls://localhost:0", "--tls-cert", p.shown.Cert, "--tls-key", p.shown.Key}, flags...)
	p.Proxy = proxytest.Start(t, upstream, flags...)
	return p
}

// secureAddr is the address with TLS.
func (p *secureProxy) secureAddr() string {
	return strings.TrimPrefix(p.Addrs()[1], "tls://")
}

// dial connects with TLS.
func (p *secureProxy) dial(t *testing.T, config *tls.Config) (*wire.Conn, error) {
	t.Helper()
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: wire.Patience}, Config: config}
	conn, err := dialer.Dial("tcp", p.secureAddr())
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return wire.NewConn(t, conn), nil
}

func (p *secureProxy) mustDial(t *testing.T, config *tls.Config) *wire.Conn {
	t.Helper()
	conn, err := p.dial(t, config)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestTLSClients has clients of several kinds, and what they get is what others
// get.
func TestTLSClients(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := startSecure(t, redis.URL())
	_, port, _ := net.SplitHostPort(proxy.secureAddr())
	out, err := exec.Command("redis-cli", "--tls", "--cacert", proxy.authority.File, "-h", "localhost", "-p", port,
		"CL.THROTTLE", "user123", "15", "30", "60").CombinedOutput()
	if want := "0\n16\n15\n-1\n2\n"; err != nil || string(out) != want {
		t.Errorf("redis-cli: %v, got %q, want %q", err, out, want)
	}
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("go-redis, protocol ", protocol), func(t *testing.T) { useGoRedis(t, proxy, protocol) })
	}
	t.Run("bytes", func(t *testing.T) {
		script := "SET k v\r\nGET k\r\nMULTI\r\nGET k\r\nCL.THROTTLE u 1 1 60\r\nEXEC\r\nnosuch\r\nSUBSCRIBE c\r\nUNSUBSCRIBE c\r\nDEL u\r\n" + quit
		got := untilClosed(t, proxy.mustDial(t, proxy.authority.Client(t)), script)
		if want := untilClosed(t, proxy.Dial(t), script); got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}

func useGoRedis(t *testing.T, proxy *secureProxy, protocol int) {
	client := goredis.NewClient(&goredis.Options{
		Addr: proxy.secureAddr(), Protocol: protocol, MaxRetries: -1, TLSConfig: proxy.authority.Client(t),
	})
	defer client.Close()
	ctx := t.Context()
	large := strings.Repeat("x", 3<<20)
	pipe := client.Pipeline()
	for i := range 500 {
		pipe.Set(ctx, fmt.Sprint("key", i), i, 0)
	}
	pipe.Set(ctx, "large", large, 0)
	get := pipe.Get(ctx, "large")
	if _, err := pipe.Exec(ctx); err != nil || get.Val() != large {
		t.Errorf("pipeline: %v, got %d bytes, want %d", err, len(get.Val()), len(large))
	}
	subscriber := client.Subscribe(ctx, "news")
	defer subscriber.Close()
	if _, err := subscriber.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	client.Publish(ctx, "news", "hello")
	if message, err := subscriber.ReceiveMessage(ctx); err != nil || message.Payload != "hello" {
		t.Errorf("message: %v, %v", message, err)
	}
}

// TestTLSCertificatesAreReadAgain changes the files while clients are connected.
func TestTLSCertificatesAreReadAgain(t *testing.T) {
	proxy := startSecure(t, "")
	config := proxy.authority.Client(t)
	before := proxy.mustDial(t, config)
	before.Do("PING")
	second := proxy.authority.Issue(t, "second")
	for i, test := range []struct{ cert, key, want string }{
		{second.Cert, second.Key, "second"},
		{"/dev/null", second.Key, "second"}, // changes nothing
	} {
		copyFile(t, test.cert, proxy.shown.Cert)
		copyFile(t, test.key, proxy.shown.Key)
		syscall.Kill(proxy.Pid(), syscall.SIGHUP)
		await(t, "the files to be read", func() bool { return strings.Count(proxy.Output(), "reloaded") == i+1 })
		conn := proxy.mustDial(t, config)
		if got := conn.Do("PING"); got != "+PONG\r\n" {
			t.Errorf("PING = %q", got)
		}
		if got := shownTo(conn); got != test.want {
			t.Errorf("a new client is shown %q, want %q", got, test.want)
		}
		if got := before.Do("PING"); got != "+PONG\r\n" || shownTo(before) != "first" {
			t.Errorf("one who was there: PING = %q, with %q", got, shownTo(before))
		}
	}
}

// shownTo is the name in the certificate that a client was shown.
func shownTo(conn *wire.Conn) string {
	return conn.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTLSClientsThatAreRefused have no certificate, another's, an old TLS, or none.
func TestTLSClientsThatAreRefused(t *testing.T) {
	known, unknown := certs.New(t), certs.New(t)
	proxy := startSecure(t, "", "--tls-client-ca", known.File, "--tls-min-version", "1.3")
	good := proxy.authority.Client(t, known.Issue(t, "client"))
	if got := proxy.mustDial(t, good).Do("PING"); got != "+PONG\r\n" {
		t.Errorf("with a certificate: PING = %q", got)
	}
	old := good.Clone()
	old.MaxVersion = tls.VersionTLS12
	for name, config := range map[string]*tls.Config{
		"certificate required":  proxy.authority.Client(t),
		"unknown certificate":   proxy.authority.Client(t, unknown.Issue(t, "client")),
		"version not supported": old,
	} {
		conn, err := proxy.dial(t, config)
		if err == nil { // it is told when it reads
			conn.Write([]byte("PING\r\n"))
			_, err = conn.ReadReply()
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	plain := wire.Dial(t, "tcp", proxy.secureAddr())
	plain.Write([]byte("PING\r\n"))
	if got, _ := plain.ReadAll(); strings.Contains(got, "PONG") {
		t.Errorf("without TLS: got %q", got)
	}
	// Whom one vouches for may be changed.
	copyFile(t, unknown.File, known.File)
	syscall.Kill(proxy.Pid(), syscall.SIGHUP)
	await(t, "the files to be read", func() bool { return strings.Contains(proxy.Output(), "reloaded") })
	good.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	conn, err := proxy.dial(t, good)
	if err == nil {
		_, err = conn.ReadReply()
	}
	if err == nil || !strings.Contains(err.Error(), "unknown certificate") {
		t.Errorf("after the change: got %v", err)
	}
}

// TestTLSShutdown answers what is in flight, and says that the end is the end.
func TestTLSShutdown(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := startSecure(t, redis.URL())
	conn := proxy.mustDial(t, proxy.authority.Client(t))
	conn.Do("PING")
	admin := redis.Dial(t)
	admin.Do("CLIENT", "PAUSE", "60000", "WRITE")
	const commands = 50
	conn.Write(bytes.Repeat(wire.Encode([]string{"INCR", "n"}), commands))
	await(t, "the upstream to have the writes", func() bool {
		return strings.Contains(admin.Do("CLIENT", "LIST"), " cmd=incr ")
	})
	proxy.Terminate()
	awaitRefusal(t, proxy.secureAddr())
	admin.Do("CLIENT", "UNPAUSE")
	got, err := conn.ReadAll()
	if err != nil || !strings.HasSuffix(got, fmt.Sprintf(":%d\r\n", commands)) {
		t.Errorf("got %d replies, %v, want %d, then the end: %.200q", strings.Count(got, "\n"), err, commands, got)
	}
	proxy.Wait()
}

// TestTLSClientThatDoesNotRead loses its connection and nobody else does.
func TestTLSClientThatDoesNotRead(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := startSecure(t, redis.URL(), "--client-output-limit", "1000000", "--write-timeout", "500ms")
	other := proxy.mustDial(t, proxy.authority.Client(t))
	other.Do("SET", "large", strings.Repeat("x", 1<<20))
	deaf := proxy.mustDial(t, proxy.authority.Client(t))
	request := wire.Encode([]string{"GET", "large"})
	var err error
	for begin := time.Now(); err == nil && time.Since(begin) < wire.Patience; {
		deaf.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = deaf.Conn.Write(request)
	}
	if err == nil {
		t.Error("it may ask on and on")
	}
	if _, err := deaf.ReadAll(); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it stays connected")
	}
	if got := other.Do("PING"); got != "+PONG\r\n" {
		t.Errorf("PING of another = %q", got)
	}
}

// TestTLSUpgrade has a new process take over the socket.
func TestTLSUpgrade(t *testing.T) {
	proxy := startSecure(t, "")
	proxy.Upgrade()
	config := proxy.authority.Client(t)
	await(t, "the new process to serve", func() bool {
		conn, err := proxy.dial(t, config)
		if err != nil {
			return false // the one before has just ended
		}
		conn.Write(wire.Encode([]string{"PING"}))
		reply, err := conn.ReadReply()
		return err == nil && reply == "+PONG\r\n"
	})
}
