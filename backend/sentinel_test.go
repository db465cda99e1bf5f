package backend

import (
	"slices"
	"testing"
)

func TestParseSentinelURL(t *testing.T) {
	for _, test := range []struct {
		url    string
		addrs  []string
		name   string
		master string // URL of the master at host:1
	}{
		{"redis+sentinel://a:1,b:2/main", []string{"a:1", "b:2"}, "main", "redis://host:1/?"},
		{"redis+sentinel://a,[::1]:2,[::2]/main/3", []string{"a:26379", "[::1]:2", "[::2]:26379"}, "main", "redis://host:1/3?"},
		{"rediss+sentinel://me:p%40ss@a:1/my%20main?tls_ca=ca.pem&sentinel_user=u&sentinel_password=p", []string{"a:1"}, "my main", "rediss://me:p%40ss@host:1/?tls_ca=ca.pem"},
	} {
		got, ok, err := parseSentinelURL(test.url)
		if err != nil || !ok || !slices.Equal(got.addrs, test.addrs) || got.name != test.name || got.master("host:1") != test.master {
			t.Errorf("%s: got %q, %q, %q, %v", test.url, got.addrs, got.name, got.master("host:1"), err)
		}
	}
	if got, _, _ := parseSentinelURL("redis+sentinel://a/main?sentinel_user=u&sentinel_password=p"); got.user != "u" || got.password != "p" {
		t.Errorf("user and password of the sentinels: got %q, %q", got.user, got.password)
	}
	if _, ok, err := parseSentinelURL("redis://a:1/3"); ok || err != nil {
		t.Errorf("another URL: got %v, %v", ok, err)
	}
	for _, url := range []string{"redis+sentinel://a:1", "redis+sentinel://a:1/", "redis+sentinel://a:1/%zz", "redis+sentinel://a/main?%zz"} {
		if _, ok, err := parseSentinelURL(url); !ok || err == nil {
			t.Errorf("%s: got %v, no error", url, ok)
		}
	}
}
