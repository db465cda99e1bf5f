package test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
)

// TestDashboardShowsWhatThereIs sees that every metric of the Grafana dashboard
// exists, with the labels it is asked by, and that none of cellproxy's is left
// out.
func TestDashboardShowsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query any } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	proxy := proxytest.Start(t, "", "--admin", "127.0.0.1:0")
	labels := make(map[string]string) // of each metric, all that there are
	for name := range scrape(t, proxy) {
		name, of, _ := strings.Cut(name, "{")
		labels[name] += of
	}
	metric := regexp.MustCompile(`\b((?:cellproxy|go|process)_\w+)(\{[^}]*\})?`)
	label := regexp.MustCompile(`(\w+)=~?"`)
	grouping := regexp.MustCompile(`by \(([^)]*)\)`)
	shown := make(map[string]bool)
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			used := metric.FindAllStringSubmatch(target.Expr, -1)
			if len(used) == 0 {
				t.Errorf("%s: %s shows no metric", panel.Title, target.Expr)
			}
			for _, match := range used {
				if _, exists := labels[match[1]]; !exists {
					t.Errorf("%s: there is no %s", panel.Title, match[1])
				}
				shown[match[1]] = true
				wanted := label.FindAllStringSubmatch(match[2], -1)
				wanted = append(wanted, grouping.FindAllStringSubmatch(target.Expr, -1)...)
				for _, l := range wanted {
					own := l[1] != "job" && l[1] != "instance" // which Prometheus adds
					if own && !strings.Contains(labels[match[1]], l[1]+`="`) {
						t.Errorf("%s: %s has no label %s", panel.Title, match[1], l[1])
					}
				}
			}
		}
	}
	for name := range labels {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !strings.HasPrefix(name, "cellproxy_") || shown[base+"_bucket"] || shown[base+"_sum"] || shown[name] {
			continue
		}
		switch name {
		case "cellproxy_build_info", "cellproxy_failure_policy", "cellproxy_failure_policy_active", "cellproxy_clients_accepted_total":
		default:
			t.Errorf("no panel shows %s", name)
		}
	}
}
