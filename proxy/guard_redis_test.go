package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/redcon"

	"cellproxy/test/redistest"
)

const redisPassword = "pw"

// TestGuardAgreesWithRedis sends streams to a real Redis, and the commands the
// guard makes of them to another connection. All replies must be the same,
// errors included. Commands that Redis does not know are answered with their
// arguments, so every byte of them counts.
func TestGuardAgreesWithRedis(t *testing.T) {
	open := redistest.Start(t, redistest.Options{})
	locked := redistest.Start(t, redistest.Options{Password: redisPassword})
	for _, tt := range streams {
		t.Run(tt.name, func(t *testing.T) {
			server := open
			if tt.stranger {
				server = locked
			}
			compareWithRedis(t, server, tt.in)
		})
	}
	t.Run("generated", func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := 0; i < 1500 && !t.Failed(); i++ {
			compareWithRedis(t, open, generatedStream(rng))
			compareWithRedis(t, locked, generatedStream(rng))
		}
	})
}

// TestGuardLimitsStrangersLikeRedis has AUTH come along with what only those
// who have authenticated may send.
func TestGuardLimitsStrangersLikeRedis(t *testing.T) {
	locked := redistest.Start(t, redistest.Options{Password: redisPassword})
	many := encoded(slices.Repeat([]string{"a"}, 11)...)
	long := encoded("ECHO", strings.Repeat("v", maxStrangerBulk+1))
	for _, before := range []string{
		"", encoded("AUTH", redisPassword), encoded("AUTH", "wrong"), "AUTH " + redisPassword + "\n",
		encoded("PING") + encoded("AUTH", "default", redisPassword) + encoded("PING"),
	} {
		for _, after := range []string{many, long, many + long, long + many, "PING\n" + long + "\n"} {
			compareWithRedis(t, locked, before+after)
		}
	}
}

// compareWithRedis checks that a stream is answered as its commands are.
func compareWithRedis(t *testing.T, server *redistest.Server, in string) {
	t.Helper()
	conn := server.Dial(t)
	defer conn.Close()
	conn.Write([]byte(in)) // Redis may have hung up by now
	conn.Conn.(*net.UnixConn).CloseWrite()
	want, err := conn.ReadAll()
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("after %q: %v", in, err)
	}
	if got := answers(t, server, in); got != want {
		t.Errorf("after %.1000q: got %.1000q, Redis answers %.1000q", in, got, want)
	}
}

// answers returns the replies to the commands of a stream, and the protocol
// error at the end of them, if that is what it is.
func answers(t *testing.T, server *redistest.Server, in string) string {
	t.Helper()
	conn := server.Dial(t)
	defer conn.Close()
	g := newGuard(strings.NewReader(in))
	g.authenticated = !strings.HasPrefix(conn.Do("PING"), "-NOAUTH")
	var replies strings.Builder
	_, err := drain(t, g, func(cmd redcon.Command) {
		if _, err := conn.Write(cmd.Raw); err != nil {
			t.Fatal(err)
		}
		reply := conn.Reply()
		replies.WriteString(reply)
		if strings.EqualFold(string(cmd.Args[0]), "AUTH") && reply == "+OK\r\n" {
			g.authenticated = true
		}
	})
	if text := protocolText(t, err); text != "" {
		fmt.Fprintf(&replies, "-ERR Protocol error: %s\r\n", text)
	}
	return replies.String()
}

// streamPieces is what generated streams are made of.
var streamPieces = []string{
	"*", "$", "\r\n", "\n", "\r", "*1\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n", "$0\r\n\r\n", "$4\r\nPING\r\n", "PING\r\n", " ", "\t", "\v",
	"*9223372036854775807\r\n", "$9223372036854775807\r\n", "*10\r\n", "*11\r\n", "$16385\r\n", "-1", "0", "1", "9",
	"\"", "'", "\\", "\\x41", "\\n", "\x00", "\xff", ":1\r\n", "+OK\r\n", "a", "b c", "AUTH " + redisPassword + "\r\n",
	encoded("AUTH", redisPassword), encoded("ECHO", "x y"), "ECHO 'a b'\r\n", "ECHO \"\\x00\\r\\n\"\r\n",
}

// countInQuestion matches numbers of arguments of which Redis may allow more than
// the guard: the former up to 2147483647, the latter up to 1048576.
var countInQuestion = regexp.MustCompile(`\*[0-9]{7,10}\r`)

// generatedStream returns commands that were damaged, or what never were any.
func generatedStream(rng *rand.Rand) string {
	for {
		if s := damagedStream(rng); !countInQuestion.MatchString(s) {
			return s
		}
	}
}

func damagedStream(rng *rand.Rand) string {
	var b []byte
	for range rng.IntN(12) {
		if rng.IntN(2) == 0 {
			b = append(b, streamPieces[rng.IntN(len(streamPieces))]...)
			continue
		}
		args := []string{"ECHO"}
		for range rng.IntN(3) {
			args = append(args, streamPieces[rng.IntN(len(streamPieces))])
		}
		b = append(b, encoded(args...)...)
	}
	for range rng.IntN(4) {
		at := rng.IntN(len(b) + 1)
		switch rng.IntN(3) {
		case 0:
			b = b[:at]
		case 1:
			b = slices.Delete(b, at, min(len(b), at+1+rng.IntN(3)))
		default:
			b = slices.Insert(b, at, []byte(streamPieces[rng.IntN(len(streamPieces))])...)
		}
	}
	return string(b)
}
