package test

import (
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/wire"
)

func TestEmbeddedStore(t *testing.T) {
	conn := proxytest.Start(t, "").Dial(t)
	for _, x := range []exchange{
		{[]string{"CL.THROTTLE", "user123", "15", "30", "60"}, integers(0, 16, 15, -1, 2)},
		{[]string{"CL.THROTTLE", "user123", "15", "30", "60", "15"}, integers(0, 16, 0, -1, 32)},
		{[]string{"CL.THROTTLE", "user123", "15", "30", "60"}, integers(1, 16, 0, 2, 32)},
		{[]string{"DEL", "user123"}, ":1\r\n"},
		{[]string{"CL.THROTTLE", "user123", "15", "30", "60"}, integers(0, 16, 15, -1, 2)},
		{[]string{"SET", "k", "v"}, "+OK\r\n"},
		{[]string{"GET", "k"}, bulk("v")},
		{[]string{"SCRIPT", "FLUSH"}, "+OK\r\n"},
		{[]string{"CL.THROTTLE", "user124", "15", "30", "60"}, integers(0, 16, 15, -1, 2)},
		{[]string{"MULTI"}, "+OK\r\n"},
		{[]string{"CL.THROTTLE", "user124", "15", "30", "60"}, "+QUEUED\r\n"},
		{[]string{"EXEC"}, "*1\r\n" + integers(0, 16, 14, -1, 4)},
	} {
		if got := conn.Do(x.command...); got != x.want {
			t.Errorf("%q = %q, want %q", x.command, got, x.want)
		}
	}
}

// TestEmbeddedStoreExpires sees that keys go and tokens come back by
// themselves.
func TestEmbeddedStoreExpires(t *testing.T) {
	conn := proxytest.Start(t, "").Dial(t)
	conn.Do("SET", "k", "v", "PX", "30")
	await(t, "the key to expire", func() bool { return conn.Do("EXISTS", "k") == ":0\r\n" })

	throttle := []string{"CL.THROTTLE", "k", "0", "5", "1"}
	if got := conn.Do(throttle...); got != integers(0, 1, 0, -1, 1) {
		t.Errorf("%q = %q", throttle, got)
	}
	if got := conn.Do(throttle...); got != integers(1, 1, 0, 1, 1) {
		t.Errorf("%q again = %q", throttle, got)
	}
	await(t, "the token to come back", func() bool { return conn.Do(throttle...) == integers(0, 1, 0, -1, 1) })
	await(t, "the limiter's key to expire", func() bool { return conn.Do("EXISTS", "k") == ":0\r\n" })
}

// TestEmbeddedStoreRefusesWhatWouldEndIt sees to a command after which the store
// would panic.
func TestEmbeddedStoreRefusesWhatWouldEndIt(t *testing.T) {
	conn := proxytest.Start(t, "").Dial(t)
	for range 2 {
		if got, want := conn.Do("sinterstore", "s", "none"), "-ERR SINTERSTORE is not supported by the embedded store\r\n"; got != want {
			t.Errorf("SINTERSTORE = %q, want %q", got, want)
		}
		conn.Do("EVAL", "return redis.call('SINTERSTORE', 's', 'none')", "0")
		if got := conn.Do("SADD", "s", "a"); got != ":1\r\n" {
			t.Errorf("SADD = %q", got)
		}
		conn.Do("DEL", "s")
	}
}

// TestEmbeddedStoreSurvivesNonsense sends commands of all sorts to it; what
// they do is the store's affair.
func TestEmbeddedStoreSurvivesNonsense(t *testing.T) {
	proxy := proxytest.Start(t, "")
	rng := newRand(t)
	for range 400 {
		stream := wire.Encode(generated(rng, allCommands, 20)...)
		for range rng.IntN(2) {
			stream = damage(rng, stream)
		}
		if err := attack(proxy.Addr(), stream); err != nil {
			t.Fatal(err)
		}
	}
	if got := proxy.Dial(t).Do("PING"); got != "+PONG\r\n" {
		t.Errorf("PING = %q", got)
	}
}
