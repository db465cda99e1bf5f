package test

import (
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// TestInfoHasASectionOfCellproxy asks for sections in every way that Redis knows.
func TestInfoHasASectionOfCellproxy(t *testing.T) {
	upstreams := map[string]string{"redis": redistest.Start(t, redistest.Options{}).URL(), "cluster": redistest.StartCluster(t, 3, 0).URL()}
	for _, protocol := range []string{"2", "3"} {
		for name, url := range upstreams {
			t.Run(name+" RESP"+protocol, func(t *testing.T) {
				conn := proxytest.Start(t, url).Dial(t)
				conn.Do("HELLO", protocol)
				for range 3 {
					conn.Do("CL.THROTTLE", "key"+protocol, "1", "1", "3600")
				}
				for _, test := range []struct {
					sections     []string
					theirs, ours bool
				}{
					{nil, true, true}, {[]string{"ALL"}, true, true}, {[]string{"everything"}, true, true}, {[]string{"default"}, true, true},
					{[]string{"CellProxy"}, false, true}, {[]string{"cellproxy", "server"}, true, true}, {[]string{"server"}, true, false},
				} {
					got := conn.Do(append([]string{"INFO"}, test.sections...)...)
					theirs, ours := strings.Contains(got, "\r\nredis_version:"), strings.Contains(got, "# Cellproxy\r\n")
					if theirs != test.theirs || ours != test.ours {
						t.Errorf("INFO %q: upstream's sections %v, cellproxy's %v: %q", test.sections, theirs, ours, got)
					}
					const want = "\r\ncellproxy_limiter_cl.throttle:requests=3,admitted=2,limited=1,failed=0,unseen=0\r\n"
					if ours && (!strings.Contains(got, want) || strings.Count(got, "# ") > 1 && strings.LastIndex(got, "# ") != strings.Index(got, "# Cellproxy")) {
						t.Errorf("INFO %q: not %q, or not last: %q", test.sections, want, got)
					}
					if test.theirs && protocol == "3" && name == "redis" && !strings.HasPrefix(got, "=") {
						t.Errorf("INFO %q is not verbatim text: %.40q", test.sections, got)
					}
				}
				if got := conn.Do("INFO", "nosuch"); strings.Contains(got, "Cellproxy") {
					t.Errorf("INFO nosuch = %q", got)
				}
			})
		}
	}
}

// TestInfoIsForThoseWhoMay has the upstream forbid it.
func TestInfoIsForThoseWhoMay(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Dial(t).Do("ACL", "SETUSER", "default", "-info")
	conn := proxytest.Start(t, redis.URL()).Dial(t)
	for _, section := range []string{"all", "cellproxy"} {
		if got := conn.Do("INFO", section); !strings.HasPrefix(got, "-NOPERM") {
			t.Errorf("INFO %s = %q", section, got)
		}
	}
}
