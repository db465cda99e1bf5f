package test

import (
	"net/url"
	"strings"
	"testing"

	"cellproxy/test/certs"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// TestUpstreamTLS has a Redis that wants certificates, and a user of its own.
func TestUpstreamTLS(t *testing.T) {
	authority := certs.New(t)
	redis := redistest.Start(t, redistest.Options{TLS: authority, User: "alice", Password: "secret"})
	proxy := proxytest.Start(t, redis.URL())
	conn := proxy.Dial(t)
	if got := conn.Do("ACL", "WHOAMI"); got != bulk("alice") {
		t.Errorf("ACL WHOAMI = %q", got)
	}
	large := strings.Repeat("x", 3<<20)
	conn.Do("SET", "large", large)
	if got := conn.Do("GET", "large"); got != bulk(large) {
		t.Errorf("GET of %d bytes = %d bytes", len(large), len(got))
	}
	if got := conn.Do("CL.THROTTLE", "user123", "15", "30", "60"); got != "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n" {
		t.Errorf("CL.THROTTLE = %q", got)
	}
	conn.Do("MULTI")
	conn.Do("INCR", "n")
	if got := conn.Do("EXEC"); got != "*1\r\n:1\r\n" {
		t.Errorf("EXEC = %q", got)
	}
	// The files are read again for new connections.
	copyFile(t, authority.File, authority.File+".kept")
	copyFile(t, certs.New(t).File, authority.File)
	if got := conn.Do("SELECT", "5"); !strings.Contains(got, "x509") {
		t.Errorf("SELECT where the upstream is distrusted = %q", got)
	}
	copyFile(t, authority.File+".kept", authority.File)
	await(t, "the upstream to be trusted again", func() bool { return conn.Do("SELECT", "5") == "+OK\r\n" })
}

// TestUpstreamTLSTrust wants to know whom it speaks to.
func TestUpstreamTLSTrust(t *testing.T) {
	authority := certs.New(t)
	redis := redistest.Start(t, redistest.Options{TLS: authority, Args: []string{"--tls-auth-clients", "no"}})
	for _, test := range []struct {
		change func(url.Values)
		want   string
	}{
		{func(q url.Values) {}, "ok    connection"},
		{func(q url.Values) { q.Del("tls_cert"); q.Del("tls_key") }, "ok    connection"},
		{func(q url.Values) { q.Set("tls_server_name", "redis") }, "ok    connection"},
		{func(q url.Values) { q.Set("tls_server_name", "other") }, "FAIL  connection"},
		{func(q url.Values) { q.Del("tls_ca") }, "FAIL  connection"},
		{func(q url.Values) { q.Del("tls_ca"); q.Set("skip_verify", "true") }, "ok    connection"},
	} {
		u, err := url.Parse(redis.URL())
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		test.change(query)
		u.RawQuery = query.Encode()
		stdout, stderr, _ := run(t, nil, "doctor", "--samples", "3", "--dial-timeout", "20s", "--upstream-timeout", "20s", "--upstream", u.String())
		if !strings.HasPrefix(stdout, test.want) {
			t.Errorf("%s: want %s…, got\n%s%s", u.RawQuery, test.want, stdout, stderr)
		}
	}
}
