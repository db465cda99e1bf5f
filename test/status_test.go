package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cellproxy/proxy/admin"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// hotLoad calls limiters: most with the key hot, a part of them with the key
// that is limited.
func hotLoad(conn *wire.Conn, rounds int) error {
	for i := range rounds {
		var pipeline [][]string
		for range 20 {
			pipeline = append(pipeline, []string{"CL.THROTTLE", "<b>hot</b>", "1000000", "1000000", "1"})
		}
		for range 10 {
			pipeline = append(pipeline, []string{"CL.THROTTLE", "limited", "1", "1", "3600"})
		}
		pipeline = append(pipeline, []string{"CL.THROTTLE", fmt.Sprint("cold", i), "1", "1", "1"})
		if _, err := conn.Write(wire.Encode(pipeline...)); err != nil {
			return err
		}
		for range pipeline {
			if _, err := conn.ReadReply(); err != nil {
				return err
			}
		}
	}
	return nil
}

func statusOf(t testing.TB, proxy *proxytest.Proxy) (status admin.Status) {
	t.Helper()
	_, text := get(t, proxy, "/status.json")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return status
}

// TestStatusKnowsTheHotKeys puts a load on and asks for the keys.
func TestStatusKnowsTheHotKeys(t *testing.T) {
	upstreams := map[string]string{"redis": redistest.Start(t, redistest.Options{}).URL(), "cluster": redistest.StartCluster(t, 3, 0).URL()}
	for name, url := range upstreams {
		t.Run(name, func(t *testing.T) {
			proxy := proxytest.Start(t, url, "--admin", "127.0.0.1:0")
			if err := hotLoad(proxy.Dial(t), 300); err != nil {
				t.Fatal(err)
			}
			status := statusOf(t, proxy)
			if len(status.Hottest) == 0 || status.Hottest[0].Key != "<b>hot</b>" {
				t.Errorf("hottest are %v, want <b>hot</b>", status.Hottest)
			}
			if len(status.MostLimited) != 1 || status.MostLimited[0].Key != "limited" {
				t.Errorf("most limited are %v, want limited", status.MostLimited)
			}
		})
	}
}

// TestStatusIsPrivateIfTold looks for keys where they are not to be shown.
func TestStatusIsPrivateIfTold(t *testing.T) {
	proxy := proxytest.Start(t, "", "--admin", "127.0.0.1:0", "--admin-keys=false")
	if err := hotLoad(proxy.Dial(t), 50); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/status.json", "/", "/metrics"} {
		if _, text := get(t, proxy, path); strings.Contains(text, "hot</b>") || strings.Contains(text, "cold1") {
			t.Errorf("%s tells a key: %s", path, text)
		}
	}
	if status := statusOf(t, proxy); status.Keys || len(status.Hottest) > 0 {
		t.Errorf("keys are looked at: %v", status.Hottest)
	}
}

// TestStatusPage sees that the page loads nothing from elsewhere and, where there
// is a Chromium, what it shows under load.
func TestStatusPage(t *testing.T) {
	proxy := proxytest.Start(t, redistest.Start(t, redistest.Options{}).URL(), "--admin", "127.0.0.1:0")
	_, page := get(t, proxy, "/")
	page = strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "") // a name, not an address
	if outside := regexp.MustCompile(`(?i)https?:|src=|href=|@import|url\(`).FindString(page); outside != "" || !strings.Contains(page, "status.json") {
		t.Errorf("the page refers to %q, or not to status.json", outside)
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		return // what is served has been seen
	}
	var rounds atomic.Int64
	stop, stopped := make(chan struct{}), make(chan error, 1)
	conn := proxy.Dial(t)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := hotLoad(conn, 1); err != nil {
				stopped <- err
				return
			}
			rounds.Add(1)
		}
	}()
	dom := render(t, browser, paced(t, proxy.AdminURL("/"), &rounds))
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`upstream is up`, `<td>&lt;b&gt;hot&lt;/b&gt;</td>`, `<td>limited</td>`, `<td>CL.THROTTLE</td>`, `<polyline points="`,
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page does not show %s:\n%s", want, dom)
		}
	}
	for _, id := range []string{"requests", "limited", "latency"} {
		if !regexp.MustCompile(`id="` + id + `">[0-9]`).MatchString(dom) {
			t.Errorf("the page shows no number of %s:\n%s", id, dom)
		}
	}
}

// TestTop looks at a load in a terminal.
func TestTop(t *testing.T) {
	proxy := proxytest.Start(t, "", "--admin", "127.0.0.1:0")
	if err := hotLoad(proxy.Dial(t), 100); err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(proxy.AdminURL(""), "http://")
	stdout, stderr, code := run(t, nil, "top", "--admin", addr, "--every", "10ms", "--count", "2")
	for _, want := range []string{"upstream up, policy error", "CL.THROTTLE", "others", `"<b>hot</b>"`, `"limited"`} {
		if strings.Count(stdout, want) < 2 {
			t.Errorf("it does not say %s twice: %s", want, stdout)
		}
	}
	if code != 0 || stderr != "" {
		t.Errorf("exited with %d, said %q", code, stderr)
	}
	if _, stderr, code := run(t, nil, "top", "--admin", "127.0.0.1:1"); code != 1 || !strings.Contains(stderr, "cannot ask cellproxy") {
		t.Errorf("without a cellproxy: %d, %q", code, stderr)
	}
}

// paced returns the URL of a way to a server on which status.json takes until the
// load has gone on: a browser that does not wait for real time to pass sees it do
// so.
func paced(t *testing.T, to string, rounds *atomic.Int64) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status.json" {
			before := rounds.Load()
			for deadline := time.Now().Add(wire.Patience); rounds.Load() < before+2 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// render returns what a page is in a browser after some updates.
func render(t *testing.T, browser, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // as far as it has let go of it
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+profile, "--virtual-time-budget=10000", "--dump-dom", url)
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	return string(dom)
}
