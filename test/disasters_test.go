package test

import (
	"strings"
	"testing"

	"cellproxy/test/redistest"
)

// disaster is something that happens to an upstream and passes.
type disaster struct {
	name  string
	begin func(t *testing.T, redis *redistest.Server)
	end   func(t *testing.T, redis *redistest.Server)
	// refuses is how the errors begin that a limiter command gets meanwhile.
	// None: it is answered.
	refuses string
}

var disasters = []disaster{
	{
		name:    "killed",
		begin:   func(_ *testing.T, redis *redistest.Server) { redis.Kill() },
		end:     func(_ *testing.T, redis *redistest.Server) { redis.Restart() },
		refuses: "-ERR upstream ",
	},
	{
		name:    "frozen",
		begin:   func(_ *testing.T, redis *redistest.Server) { redis.Freeze() },
		end:     func(_ *testing.T, redis *redistest.Server) { redis.Thaw() },
		refuses: "-ERR upstream ",
	},
	{
		name:  "restarted",
		begin: func(_ *testing.T, redis *redistest.Server) { redis.Restart() },
		end:   func(*testing.T, *redistest.Server) {},
	},
	{
		name:  "emptied",
		begin: say("FLUSHALL", "SCRIPT FLUSH"),
		end:   func(*testing.T, *redistest.Server) {},
	},
	{
		name:    "read-only",
		begin:   say("REPLICAOF 127.0.0.1 1"),
		end:     say("REPLICAOF NO ONE"),
		refuses: "-READONLY ",
	},
	{
		name:    "out of memory",
		begin:   say("CONFIG SET maxmemory 1"),
		end:     say("CONFIG SET maxmemory 0"),
		refuses: "-OOM ",
	},
	{
		name:    "loading",
		begin:   reload,
		end:     awaitLoaded,
		refuses: "-LOADING ",
	},
}

// disasterArgs are what a redis-server needs that all of them can happen to.
var disasterArgs = []string{"--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"}

// say sends commands to the upstream itself.
func say(commands ...string) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, redis *redistest.Server) {
		t.Helper()
		conn := redis.Dial(t)
		defer conn.Close()
		for _, command := range commands {
			if got := conn.Do(strings.Fields(command)...); !strings.HasPrefix(got, "+OK") {
				t.Fatalf("%s = %q", command, got)
			}
		}
	}
}

// reload has the upstream save its data and load it again slowly.
func reload(t *testing.T, redis *redistest.Server) {
	t.Helper()
	say("DEBUG POPULATE 3000", "CONFIG SET key-load-delay 500")(t, redis)
	conn := redis.Dial(t) // answered when all is loaded
	if _, err := conn.Write([]byte("DEBUG RELOAD\r\n")); err != nil {
		t.Fatal(err)
	}
	watch := redis.Dial(t)
	defer watch.Close()
	await(t, "the upstream to load", func() bool { return strings.HasPrefix(watch.Do("GET", "k"), "-LOADING ") })
}

func awaitLoaded(t *testing.T, redis *redistest.Server) {
	t.Helper()
	watch := redis.Dial(t)
	defer watch.Close()
	await(t, "the upstream to have loaded", func() bool { return !strings.HasPrefix(watch.Do("GET", "k"), "-LOADING ") })
}
