package admin

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"cellproxy/backend"
	"cellproxy/proxy"
)

// statusKeys is how many of the hottest and of the most limited keys are shown.
const statusKeys = 10

//go:embed status.html
var statusPage []byte

// Status is what the status page shows. Counts are since the start: who asks twice
// can tell the rates.
type Status struct {
	Version string
	Seconds float64 // since the start
	Clients proxy.Stats
	// Upstream has its latency in Latency.Buckets, see backend.Counts.
	Upstream backend.Stats
	// Keys says that the keys are looked at.
	Keys            bool
	Hottest         []Key
	MostLimited     []Key
	HalfLifeSeconds float64
}

// Key is one that limiter commands are called with, and about how often in the
// last seconds.
type Key struct {
	Key            string // not UTF-8: with replacement characters
	Calls, Limited float64
}

// page handles /: the status page, which loads nothing from elsewhere.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'")
	w.Write(statusPage)
}

// status handles /status.json.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	top := s.config.Server.TopKeys()
	json.NewEncoder(w).Encode(Status{
		Version: s.config.Version, Seconds: time.Since(s.began).Seconds(),
		Clients: s.config.Server.Stats(), Upstream: s.config.Backend.Stats(), Keys: top != nil,
		Hottest:         keys(top.Top(statusKeys, func(k backend.KeyCount) float64 { return k.Calls - k.Excess })),
		MostLimited:     keys(top.Top(statusKeys, func(k backend.KeyCount) float64 { return k.Limited })),
		HalfLifeSeconds: backend.TopKeysHalfLife.Seconds(),
	})
}

func keys(counts []backend.KeyCount) []Key {
	list := make([]Key, 0, len(counts))
	for _, k := range counts {
		list = append(list, Key{strings.ToValidUTF8(k.Key, "\uFFFD"), k.Calls, k.Limited})
	}
	return list
}
