package test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"cellproxy/commands"
	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// get returns what a page of the admin listener says.
func get(t testing.TB, proxy *proxytest.Proxy, path string) (code int, body string) {
	t.Helper()
	response, err := http.Get(proxy.AdminURL(path))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// scrape returns the metrics by name and labels.
func scrape(t testing.TB, proxy *proxytest.Proxy) map[string]float64 {
	t.Helper()
	_, text := get(t, proxy, "/metrics")
	metrics := make(map[string]float64)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		metrics[line[:at]] = value
	}
	return metrics
}

func requestsOf(metrics map[string]float64, command string) float64 {
	return metrics[`cellproxy_requests_total{command="`+command+`"}`]
}

func outcomeOf(metrics map[string]float64, command, outcome string) float64 {
	return metrics[`cellproxy_limiter_outcomes_total{command="`+command+`",outcome="`+outcome+`"}`]
}

// checkSums wants that no more limiter commands have an outcome than there
// were, and as many if nothing is under way.
func checkSums(t *testing.T, metrics map[string]float64, quiet bool) {
	t.Helper()
	for _, command := range commands.All() {
		requests, sum := requestsOf(metrics, command.Name), 0.0
		for _, outcome := range []string{"admitted", "limited", "failed", "unseen"} {
			sum += outcomeOf(metrics, command.Name, outcome)
		}
		if sum > requests || quiet && sum != requests {
			t.Errorf("%s: %v requests, %v outcomes", command.Name, requests, sum)
		}
	}
}

// metricsPipeline is what each client of TestMetricsAddUp sends again and
// again; countedAs is what its replies are to be counted as. What is queued in
// a transaction is unseen; clusters have none.
var (
	metricsPipeline = [][]string{
		{"CL.THROTTLE", "metrics", "50", "1", "3600"}, {"SET", "metrics:other", "none"}, {"cl.throttle", "metrics", "50", "1", "3600", "0"},
		{"TB.ACQUIRE", "metrics:tb", "100", "1", "3600000"}, {"CL.THROTTLE", "metrics", "x", "1", "3600"}, {"CL.THROTTLE", "metrics:other", "1", "1", "1"},
		{"MULTI"}, {"CL.THROTTLE", "metrics", "50", "1", "3600", "0"}, {"EXEC"}, {"nosuch"},
	}
	countedAs = []string{"throttle", "", "throttle", "acquire", "failed", "failed", "", "throttle", "", ""}
)

// TestMetricsAddUp scrapes while clients put a load on, and compares what is
// said in the end with what they saw.
func TestMetricsAddUp(t *testing.T) {
	const clients, rounds = 8, 50
	upstreams := map[string]string{
		"redis": redistest.Start(t, redistest.Options{}).URL(), "cluster": redistest.StartCluster(t, 3, 0).URL(), "embedded store": "",
	}
	for name, url := range upstreams {
		t.Run(name, func(t *testing.T) {
			proxy := proxytest.Start(t, url, "--admin", "127.0.0.1:0")
			var mu sync.Mutex
			seen := make(map[string]int)
			done := make(chan struct{})
			var working sync.WaitGroup
			for range clients {
				conn := proxy.Dial(t)
				working.Go(func() {
					for range rounds {
						replies := sendAll(conn, metricsPipeline)
						mu.Lock()
						for i, reply := range replies {
							seen[countedAs[i]+reply[:min(len(reply), 6)]]++
						}
						mu.Unlock()
					}
				})
			}
			go func() {
				working.Wait()
				close(done)
			}()
			before := scrape(t, proxy)
			for scrapes, loaded := 0, true; loaded; scrapes++ {
				select {
				case <-done:
					loaded = false
				default:
				}
				now := scrape(t, proxy)
				checkSums(t, now, !loaded)
				for name, value := range before {
					if strings.HasPrefix(name, "cellproxy_") && strings.Contains(name, "_total") && now[name] < value {
						t.Errorf("%s fell from %v to %v", name, value, now[name])
					}
				}
				before = now
			}
			m := before
			want := map[string]float64{
				"CL.THROTTLE admitted": float64(seen["throttle*5\r\n:0"]), "CL.THROTTLE limited": float64(seen["throttle*5\r\n:1"]),
				"TB.ACQUIRE admitted": float64(seen["acquire*5\r\n:0"]), "TB.ACQUIRE limited": float64(seen["acquire*5\r\n:1"]),
				"CL.THROTTLE failed": 2 * clients * rounds, "CL.THROTTLE unseen": float64(seen["throttle+QUEUE"]),
			}
			for name, n := range want {
				command, outcome, _ := strings.Cut(name, " ")
				if got := outcomeOf(m, command, outcome); got != n {
					t.Errorf("%s: %v, clients saw %v of %v", name, got, n, seen)
				}
			}
			if got := requestsOf(m, "CL.THROTTLE"); got != 5*clients*rounds {
				t.Errorf("%v requests, clients sent %v", got, 5*clients*rounds)
			}
			if got := requestsOf(m, "other"); got != 4*clients*rounds {
				t.Errorf("%v other requests, clients sent %v", got, 4*clients*rounds)
			}
			if seen["throttle*5\r\n:1"] == 0 || m["cellproxy_upstream_batch_commands_sum"] == 0 || m["cellproxy_upstream_latency_seconds_count"] == 0 {
				t.Errorf("nothing limited, no batch or no latency: %v", m)
			}
		})
	}
}

// sendAll sends a pipeline and returns the replies, with nothing in the place
// of those that do not come.
func sendAll(conn *wire.Conn, pipeline [][]string) []string {
	replies := make([]string, len(pipeline))
	if _, err := conn.Write(wire.Encode(pipeline...)); err != nil {
		return replies
	}
	for i := range replies {
		replies[i], _ = conn.ReadReply()
	}
	return replies
}

// TestMetricsOfSessions sees each kind of session, each once.
func TestMetricsOfSessions(t *testing.T) {
	proxy := proxytest.Start(t, redistest.Start(t, redistest.Options{}).URL(), "--admin", "127.0.0.1:0", "--max-clients", "3", "--requirepass", "hush")
	shared, private, wired := proxy.Dial(t), proxy.Dial(t), proxy.Dial(t)
	for _, conn := range []*wire.Conn{shared, private, wired} {
		conn.Do("AUTH", "hush")
	}
	shared.Do("AUTH", "wrong")
	private.Do("MULTI")
	wired.Do("SUBSCRIBE", "channel")
	proxy.Dial(t).ReadAll()
	m := scrape(t, proxy)
	for _, name := range []string{
		`cellproxy_sessions{mode="shared"}`, `cellproxy_sessions{mode="private"}`, `cellproxy_sessions{mode="wire"}`,
		`cellproxy_client_failures_total{kind="too_many"}`, `cellproxy_client_failures_total{kind="wrong_password"}`,
		`cellproxy_upstream_streams`, `cellproxy_upstream_up`, `cellproxy_failure_policy{policy="error"}`,
	} {
		if m[name] != 1 {
			t.Errorf("%s = %v, want 1", name, m[name])
		}
	}
	if got := m[`cellproxy_upstream_private_connections{state="in_use"}`]; got != 2 {
		t.Errorf("%v private connections, want 2", got)
	}
}

// TestMetricsAreClean has the linter of Prometheus look, and sees that what
// clients say does not become labels.
func TestMetricsAreClean(t *testing.T) {
	proxy := proxytest.Start(t, "", "--admin", "127.0.0.1:0")
	conn := proxy.Dial(t)
	conn.Do("PING")
	scrape(t, proxy)
	before := scrape(t, proxy)
	for i := range 100 {
		conn.Do(fmt.Sprint("nosuch", i), "x")
		conn.Do("CL.THROTTLE", fmt.Sprint("key", i), "1", "1", "1")
	}
	_, text := get(t, proxy, "/metrics")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	for name := range maps.Keys(scrape(t, proxy)) {
		if _, known := before[name]; !known && strings.HasPrefix(name, "cellproxy_") {
			t.Errorf("there was no %s before", name)
		}
	}
}
