package test

import (
	"fmt"
	"strings"
	"testing"

	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// quit makes the server close the connection after what came before.
const quit = "*1\r\n$4\r\nQUIT\r\n"

// TestBytesAreAnsweredAlike sends what a client library never would.
func TestBytesAreAnsweredAlike(t *testing.T) {
	p := newPair(t, redistest.Options{})
	for _, test := range []struct{ name, bytes string }{
		{"inline", "SET k v\r\nGET k\r\n" + quit},
		{"inline with a bare newline", "SET k v\nGET k\n" + quit},
		{"inline quoted", `SET "k e y" "\x00\n\"\t"` + "\r\n" + `GET 'k e y'` + "\r\n" + quit},
		{"inline unbalanced quotes", `SET "k v` + "\r\nPING\r\n"},
		{"inline closing quote in a word", `SET "k"v v` + "\r\nPING\r\n"},
		{"inline blanks", "   PING    hello   \r\n\r\n\n   \r\n" + quit},
		{"inline too long", strings.Repeat("x", 65<<10)},
		{"inline long", "ECHO " + strings.Repeat("x", 60<<10) + "\r\n" + quit},
		{"inline unknown command", "nosuch 'a b' c\r\n" + quit},
		{"inline binary", "GET \x01\xff\x80\r\n" + quit},
		{"empty array", "*0\r\n*1\r\n$4\r\nPING\r\n" + quit},
		{"negative array", "*-1\r\n*-10\r\n*1\r\n$4\r\nPING\r\n" + quit},
		{"array length no number", "*x\r\n"},
		{"array length empty", "*\r\n" + quit},
		{"array length with blanks", "* 1\r\n$4\r\nPING\r\n"},
		{"array length with a plus", "*+1\r\n$4\r\nPING\r\n"},
		{"array length with zeros", "*01\r\n$4\r\nPING\r\n"},
		{"array length too big", "*2147483648\r\n"},
		{"array length huge", "*9223372036854775807\r\n"},
		{"array length beyond int64", "*9223372036854775808\r\n"},
		{"array length line too long", "*" + strings.Repeat("1", 65<<10)},
		{"bulk length huge", "*1\r\n$9223372036854775807\r\n"},
		{"bulk length too big", "*1\r\n$536870913\r\n"},
		{"bulk length negative", "*1\r\n$-1\r\n"},
		{"bulk length no number", "*2\r\n$4\r\nECHO\r\n$x\r\n"},
		{"bulk length with zeros", "*1\r\n$04\r\nPING\r\n"},
		{"bulk length empty", "*1\r\n$\r\n"},
		{"bulk length line too long", "*1\r\n$" + strings.Repeat("1", 65<<10)},
		{"not a bulk", "*1\r\n:4\r\n"},
		{"not a bulk but an array", "*2\r\n$4\r\nPING\r\n*1\r\n$1\r\nx\r\n"},
		{"bulk without its end", "*2\r\n$4\r\nECHO\r\n$3\r\nabcXX*1\r\n$4\r\nPING\r\n" + quit},
		{"empty command name", "*1\r\n$0\r\n\r\n" + quit},
		{"blank command name", "*2\r\n$1\r\n \r\n$1\r\nx\r\n" + quit},
		{"command name with newlines", "*1\r\n$6\r\na\r\nb\r\n\r\n" + quit},
		{"long command name", "*1\r\n$300\r\n" + strings.Repeat("n", 300) + "\r\n" + quit},
		{"long unknown arguments", "*3\r\n$6\r\nnosuch\r\n$200\r\n" + strings.Repeat("a", 200) + "\r\n$2\r\n\x00\n\r\n" + quit},
		{"commands before an error", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\nx\r\n"},
		{"inline and arrays mixed", "PING\r\n*1\r\n$4\r\nPING\r\nECHO a\r\n" + quit},
		{"mixed case", "*1\r\n$4\r\nPiNg\r\ngEt k\r\n" + quit},
		{"commands after quit", quit + "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"},
		{"quit with arguments", "QUIT now\r\n" + quit},
		{"null bulk as a reply", "GET nosuch\r\nLRANGE nosuch 0 -1\r\nEVAL 'return nil' 0\r\nEVAL 'return {}' 0\r\n" + quit},
		{"carriage return in the middle of an inline", "ECHO a\rb\r\n" + quit},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := func(dial func(testing.TB) *wire.Conn) string {
				p.reset(t, redistest.Options{})
				return untilClosed(t, dial(t), test.bytes)
			}
			if got, want := run(p.proxy.Dial), run(p.redis.Dial); got != want {
				t.Errorf("got %.300q\nwant %.300q", got, want)
			}
		})
	}
}

// untilClosed sends bytes and returns all that comes back until the server
// closes the connection.
func untilClosed(t *testing.T, conn *wire.Conn, bytes string) string {
	t.Helper()
	conn.Write([]byte(bytes)) // fails if the server has seen enough before the end
	reply, err := conn.ReadAll()
	if err != nil && !strings.Contains(err.Error(), "reset by peer") {
		t.Fatalf("after %.300q: %v", reply, err)
	}
	return reply
}

// TestBytesArriveOneByOne sends a pipeline in the smallest pieces.
func TestBytesArriveOneByOne(t *testing.T) {
	p := newPair(t, redistest.Options{})
	conn := p.proxy.Dial(t)
	for _, b := range []byte("SET k 'a b'\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n\r\n" + quit) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := untilClosed(t, conn, ""), "+OK\r\n$3\r\na b\r\n+OK\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLargeValuesAreAnsweredAlike crosses every buffer there is.
func TestLargeValuesAreAnsweredAlike(t *testing.T) {
	p := newPair(t, redistest.Options{})
	sizes := []int{4095, 4096, 16 << 10, 32<<10 - 1, 32 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, 20<<20 + 7}
	var commands [][]string
	for _, size := range sizes {
		key := fmt.Sprint(size)
		commands = append(commands, []string{"SET", key, strings.Repeat("\r\n+-", size/4) + "abc"[:size%4]},
			[]string{"GET", key}, []string{"STRLEN", key})
	}
	many := []string{"RPUSH", "list"}
	for i := range 100_000 {
		many = append(many, fmt.Sprint(i))
	}
	commands = append(commands, many, []string{"LRANGE", "list", "0", "-1"})
	for _, args := range commands {
		direct, proxied := p.redis.Dial(t), p.proxy.Dial(t)
		want, got := direct.Do(args...), proxied.Do(args...)
		if args[0] == "RPUSH" {
			p.admin.Do("LTRIM", "list", "0", "99999")
			want = strings.Replace(want, "100000", "200000", 1)
		}
		if got != want {
			t.Errorf("%.60q: got %d bytes %.100q, want %d bytes %.100q", args, len(got), got, len(want), want)
		}
		direct.Close()
		proxied.Close()
	}
}

// TestNotificationsOfMessagesAreComplete has subscribers read long after the
// messages were published.
func TestNotificationsOfMessagesAreComplete(t *testing.T) {
	p := newPair(t, redistest.Options{})
	subscriber, publisher := p.proxy.Dial(t), p.proxy.Dial(t)
	subscriber.Do("SUBSCRIBE", "c")
	const messages = 5000
	var commands [][]string
	for i := range messages {
		commands = append(commands, []string{"PUBLISH", "c", fmt.Sprint(i)})
	}
	publisher.Send(commands...)
	for i := range messages {
		if got := publisher.Reply(); got != ":1\r\n" {
			t.Fatalf("PUBLISH = %q", got)
		}
		want := fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%d\r\n", len(fmt.Sprint(i)), i)
		if got := subscriber.Reply(); got != want {
			t.Fatalf("message %d: got %q, want %q", i, got, want)
		}
	}
}
