package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cellproxy/backend"
)

// metrics handles /metrics.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{s.config},
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// metric describes one. Labels are bounded: there are as many commands as
// limiters, and of everything else what is listed here.
func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cellproxy_"+name, help, labels, nil)
}

var (
	buildInfo = metric("build_info", "1, by version.", "version")

	requests = metric("requests_total", "Commands of clients, by limiter command; all others are other.", "command")
	outcomes = metric("limiter_outcomes_total", "What became of limiter commands: admitted, limited, failed (an error), or unseen (in a transaction, or on a connection that is passed through).", "command", "outcome")

	sessions = metric("sessions", "Clients that are connected: shared (on the connections that they share), private (on an upstream connection of their own), or wire (the same, passed through as after SUBSCRIBE).", "mode")
	accepted = metric("clients_accepted_total", "Clients that have connected.")
	clients  = metric("client_failures_total", "Clients too many, those that sent malformed or too large commands, those that left replies unread, wrong passwords given to the proxy, and panics in sessions.", "kind")

	latency  = metric("upstream_latency_seconds", "From submitting a command until its reply has come: a sample of at most one command at a time on each connection, without blocking ones.")
	batches  = metric("upstream_batch_commands", "Commands that left upstream in one write.")
	inFlight = metric("upstream_in_flight_commands", "Commands sent upstream, or about to be, that await replies: the depth of the streams.")
	streams  = metric("upstream_streams", "Upstream connections that clients share.")
	private  = metric("upstream_private_connections", "Upstream connections for one client each, in_use or idle.", "state")
	upstream = metric("upstream_failures_total", "Times the upstream was found dead, and connections unreachable, refused (by the upstream), lost, or silent (lost for leaving commands unanswered).", "kind")
	resent   = metric("upstream_scripts_resent_total", "Limiter commands that had to bring their script again.")
	denials  = metric("limiter_cached_denials_total", "Limiter commands refused without asking upstream, by --deny-cache.")

	up        = metric("upstream_up", "1 unless the upstream is held to be dead.")
	policy    = metric("failure_policy", "1 for the policy that answers limiter commands while the upstream is away.", "policy")
	acting    = metric("failure_policy_active", "1 while it does, 0 while the upstream is there.")
	fallbacks = metric("failure_policy_answers_total", "Limiter commands that were answered by it.")
)

// policies are all there are.
var policies = []backend.Policy{backend.PolicyError, backend.PolicyAllow, backend.PolicyDeny, backend.PolicyLocal}

// collector gathers the metrics of a proxy.
type collector struct{ config Config }

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := sample{ch}
	s.gauge(buildInfo, 1, c.config.Version)
	s.clients(c.config)
	s.upstream(c.config.Backend.Stats())
}

// sample is what the metrics of a moment go to.
type sample struct{ ch chan<- prometheus.Metric }

func (s sample) count(d *prometheus.Desc, n uint64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s sample) gauge(d *prometheus.Desc, n float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
}

// histogram turns counts into a histogram whose numbers are of a unit: 1e6 for
// counted microseconds makes seconds.
func (s sample) histogram(d *prometheus.Desc, counts backend.Counts, unit float64) {
	buckets := make(map[float64]uint64)
	below := uint64(0)
	for i, n := range counts.Buckets[:len(counts.Buckets)-1] {
		below += n
		buckets[float64(uint64(1)<<i)/unit] = below
	}
	s.ch <- prometheus.MustNewConstHistogram(d, counts.Count, float64(counts.Sum)/unit, buckets)
}

func (s sample) clients(config Config) {
	stats := config.Server.Stats()
	for _, l := range stats.Limiters {
		s.count(requests, l.Requests, l.Name)
		s.count(outcomes, l.Admitted, l.Name, "admitted")
		s.count(outcomes, l.Limited, l.Name, "limited")
		s.count(outcomes, l.Failed, l.Name, "failed")
		s.count(outcomes, l.Unseen, l.Name, "unseen")
	}
	s.count(requests, stats.Others, "other")
	s.gauge(sessions, float64(stats.Shared), "shared")
	s.gauge(sessions, float64(stats.Private), "private")
	s.gauge(sessions, float64(stats.Wires), "wire")
	s.count(accepted, stats.Accepted)
	s.count(clients, stats.Full, "too_many")
	s.count(clients, stats.Malformed, "malformed")
	s.count(clients, stats.Unread, "unread")
	s.count(clients, stats.WrongPasswords, "wrong_password")
	s.count(clients, stats.Panics, "panic")
}

func (s sample) upstream(stats backend.Stats) {
	s.histogram(latency, stats.Latency, 1e6)
	s.histogram(batches, stats.Batches, 1)
	s.gauge(inFlight, float64(stats.InFlight))
	s.gauge(streams, float64(stats.Streams))
	s.gauge(private, float64(stats.PrivateInUse), "in_use")
	s.gauge(private, float64(stats.PrivateIdle), "idle")
	s.count(upstream, stats.Deaths, "dead")
	s.count(upstream, stats.Unreachable, "unreachable")
	s.count(upstream, stats.Refused, "refused")
	s.count(upstream, stats.Lost, "lost")
	s.count(upstream, stats.Silent, "silent")
	s.count(resent, stats.Repairs)
	s.count(denials, stats.Denials)
	s.gauge(up, truth(stats.Up))
	for _, p := range policies {
		s.gauge(policy, truth(p == stats.Policy), string(p))
	}
	s.gauge(acting, truth(!stats.Up))
	s.count(fallbacks, stats.Fallbacks)
}

// truth is 1 for what is so.
func truth(so bool) float64 {
	if so {
		return 1
	}
	return 0
}
