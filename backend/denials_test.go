package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellproxy/commands"
)

func TestInvalidated(t *testing.T) {
	for message, want := range map[string][]string{
		">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n":                {"k"},
		">2\r\n$10\r\ninvalidate\r\n*2\r\n$4\r\n\r\n*1\r\n$0\r\n\r\n": {"\r\n*1", ""},
		">2\r\n$10\r\ninvalidate\r\n*0\r\n":                           {},
		">2\r\n$10\r\ninvalidate\r\n_\r\n":                            nil,
		">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nk\r\n":                nil,
		">2\r\n$10\r\ninvalidate\r\n*1\r\n:5\r\n":                     nil,
		">2\r\n$10\r\ninvalidate\r\n*x\r\n":                           nil,
		">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\nk\r\n":                nil,
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n":               nil,
		">2\r\n$10\r\ninvalidate\r\n*1\r\n$-1\r\n":                    nil,
	} {
		keys, ok := invalidated([]byte(message))
		got := []string{}
		for _, key := range keys {
			got = append(got, string(key))
		}
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", message, got, ok, want)
		}
	}
}

func TestExpiry(t *testing.T) {
	for _, tt := range []struct{ micros, ttlMillis, want int64 }{
		{5_000_000, 0, 5_001_000},
		{5_000_999, 10, 5_011_000},
	} {
		if got := expiry(tt.micros, tt.ttlMillis); got != tt.want {
			t.Errorf("%d ms left at %d: got %d, want %d", tt.ttlMillis, tt.micros, got, tt.want)
		}
	}
	if got := expiry(5_000_000, -1); got < 1<<62 {
		t.Errorf("that does not expire: got %d", got)
	}
}

// newTestCache is a cache that nobody reads keys for.
func newTestCache(t testing.TB) *denyCache {
	b, err := New(Config{DenyCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return newDenyCache(b, Identity{})
}

// TestDenyCacheIsBounded has keys refused twice, which is when they are kept.
func TestDenyCacheIsBounded(t *testing.T) {
	c := newTestCache(t)
	refuse := func(key string) {
		for range 2 {
			c.refused([]byte(key))
		}
		c.unread = nil // as if it had been read
	}
	refuse(strings.Repeat("k", maxDenialKey+1))
	if len(c.denials) > 0 {
		t.Error("a long name is kept")
	}
	long := strings.Repeat("k", maxDenialKey-20)
	c.most = 1 << 20
	for i := range 3 * c.most / maxDenialKey {
		refuse(fmt.Sprintf("%s%020d", long, i))
	}
	if c.size > c.most || c.size < c.most/2 {
		t.Errorf("%d bytes are kept, want no more than %d", c.size, c.most)
	}
	size := 0
	for _, d := range c.denials {
		size += d.bytes()
	}
	if size != c.size {
		t.Errorf("%d bytes are kept and %d counted", size, c.size)
	}
	c.clear()
	c.most = maxDenialBytes
	for i := range maxUnread + 100 {
		for range 2 {
			c.refused(fmt.Appendf(nil, "%d", i))
		}
	}
	if len(c.unread) != maxUnread || len(c.denials) != maxUnread {
		t.Errorf("%d of %d keys wait to be read, want %d", len(c.unread), len(c.denials), maxUnread)
	}
}

// TestDenyCacheKeepsWhatIsRefusedAgain sees that one refusal is not worth reading
// the key.
func TestDenyCacheKeepsWhatIsRefusedAgain(t *testing.T) {
	c := newTestCache(t)
	for i, want := range []int{0, 1, 1} {
		c.refused([]byte("key"))
		if got := len(c.unread); got != want {
			t.Errorf("after %d refusals %d keys are to be read, want %d", i+1, got, want)
		}
	}
}

// BenchmarkDenied answers requests for a key that is over its limit.
func BenchmarkDenied(b *testing.B) {
	c := newTestCache(b)
	const begin = 1_700_000_000_000_000
	for i := range 10 {
		sent := int64(i) * 20e6
		c.clock.sample(begin+sent/1000, sent, sent+1000)
		c.heardAt = sent
	}
	c.now = func() int64 { return c.heardAt + 5e6 }
	c.denials["user123"] = &denial{key: "user123", value: fmt.Sprint(int64(begin*1000 + 5e9)), expires: 1 << 62, known: true}
	var call commands.Call
	args := [][]byte{[]byte("CL.THROTTLE"), []byte("user123"), []byte("0"), []byte("1"), []byte("5")}
	if err := commands.Lookup(args[0]).Parse(args, &call); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.answer(&call); !ok {
			b.Fatal("not denied")
		}
	}
}
