package test

import (
	"net/http"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// TestReadiness takes the upstream away: who answers limiter commands all the
// same is ready all the same.
func TestReadiness(t *testing.T) {
	for policy, want := range map[string]int{"error": http.StatusServiceUnavailable, "allow": http.StatusOK, "local": http.StatusOK} {
		t.Run(policy, func(t *testing.T) {
			redis := redistest.Start(t, redistest.Options{})
			proxy := proxytest.Start(t, redis.URL(), "--admin", "127.0.0.1:0", "--on-upstream-failure", policy)
			check := func(path string, want int) {
				t.Helper()
				if code, body := get(t, proxy, path); code != want {
					t.Errorf("%s: %d %q, want %d", path, code, body, want)
				}
			}
			check("/readyz", http.StatusOK)
			redis.Kill()
			await(t, "the proxy to notice", func() bool {
				get(t, proxy, "/readyz") // which looks
				return scrape(t, proxy)["cellproxy_upstream_up"] == 0
			})
			check("/readyz", want)
			check("/healthz", http.StatusOK)
			m := scrape(t, proxy)
			if m["cellproxy_failure_policy_active"] != 1 || m[`cellproxy_failure_policy{policy="`+policy+`"}`] != 1 || m[`cellproxy_upstream_failures_total{kind="dead"}`] != 1 {
				t.Errorf("the metrics do not say that policy %s acts: %v", policy, m)
			}
			redis.Restart()
			await(t, "the upstream to be back", func() bool { return scrape(t, proxy)["cellproxy_upstream_up"] == 1 })
			check("/readyz", http.StatusOK)
		})
	}
}

// TestAdminIsNotForEverybody looks for what is not there unless told.
func TestAdminIsNotForEverybody(t *testing.T) {
	_, stderr, code := run(t, nil, "serve", "--admin", "0.0.0.0:0")
	if code != 2 || !strings.Contains(stderr, "--admin-unprotected") {
		t.Errorf("--admin beyond loopback: code %d, %q", code, stderr)
	}
	quiet := proxytest.Start(t, "", "--admin", "127.0.0.1:0")
	if code, _ := get(t, quiet, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("profiles without the flag: %d", code)
	}
	open := proxytest.Start(t, "", "--admin", "127.0.0.1:0", "--admin-pprof")
	if code, body := get(t, open, "/debug/pprof/goroutine?debug=1"); code != http.StatusOK || !strings.Contains(body, "goroutine profile") {
		t.Errorf("a profile: %d %.100q", code, body)
	}
	request, err := http.NewRequest("GET", quiet.AdminURL("/metrics"), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "rebound.example"
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d", response.StatusCode)
	}
}

// TestAdminGoesWithTheListener sees the process that has taken over.
func TestAdminGoesWithTheListener(t *testing.T) {
	proxy := proxytest.Start(t, "", "--admin", "localhost:0") // sockets are handed over by the address in the flag
	held := proxy.Dial(t)                                     // keeps the first process
	held.Do("SUBSCRIBE", "channel")
	const sessions = `cellproxy_sessions{mode="wire"}`
	if got := scrape(t, proxy)[sessions]; got != 1 {
		t.Errorf("%v clients before, want 1", got)
	}
	proxy.Upgrade()
	await(t, "the first process to listen no more", func() bool { return strings.Contains(proxy.Output(), "shutting down") })
	http.DefaultClient.CloseIdleConnections()
	if got := scrape(t, proxy)[sessions]; got != 0 {
		t.Errorf("%v clients after, want 0", got)
	}
}
