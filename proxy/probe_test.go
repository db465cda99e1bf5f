package proxy

import "testing"

// feed gives replies to p, each cut in two at a place, and returns what passes.
func feed(p probe, at int, replies ...string) (passed string) {
	for _, reply := range replies {
		cut := min(at, len(reply))
		passed += string(p.take([]byte(reply[:cut]), true))
		if cut < len(reply) {
			passed += string(p.take([]byte(reply[cut:]), false))
		}
	}
	return passed
}

const (
	pushed  = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"
	message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"
)

func TestResetProbe(t *testing.T) {
	p := newResetProbe(12345)
	const unknown, reset = "-ERR unknown command 'cellproxy:12345', with args beginning with: \r\n", "+RESET\r\n"
	for _, step := range []struct {
		reply        string
		first        bool
		want         string
		marked, done bool
	}{
		{"+OK\r\n", true, "+OK\r\n", false, false},
		{"-ERR unknown command 'NOSUCH'\r\n", true, "-ERR unknown command 'NOSUCH'\r\n", false, false},
		{"$66\r\n", true, "$66\r\n", false, false},
		{unknown, false, unknown, false, false},
		{reset, false, reset, false, false},
		{unknown, true, "", true, false},
		{reset, true, "", true, true},
		{reset, true, reset, true, true},
	} {
		if got := string(p.take([]byte(step.reply), step.first)); got != step.want || p.marked != step.marked || p.done != step.done {
			t.Errorf("%q, first %v: got %q, marked %v, done %v, want %+v", step.reply, step.first, got, p.marked, p.done, step)
		}
	}
}

func TestCountProbe(t *testing.T) {
	const theirs = "*3\r\n$11\r\nunsubscribe\r\n$15\r\ncellproxy:12346\r\n:0\r\n"
	const refused = "-NOPERM this user has no permissions to run the 'get' command\r\n"
	before := []string{"+OK\r\n", message, pushed, theirs, refused, "*-1\r\n", "$2\r\n*3\r\n"}
	for _, kind := range []string{"*", ">"} {
		ours := kind + "3\r\n$11\r\nunsubscribe\r\n$15\r\ncellproxy:12345\r\n:12\r\n"
		for at := 1; at <= len(ours); at++ {
			p := newCountProbe("UNSUBSCRIBE", 12345)
			var want string
			for _, reply := range before {
				want += reply
			}
			if got := feed(p, at, before...); got != want || p.done {
				t.Fatalf("cut at %d: done %v, passed %q, want %q", at, p.done, got, want)
			}
			if got := feed(p, at, ours); got != "" || !p.counted || p.count != 12 {
				t.Fatalf("cut at %d: counted %v: %d, passed %q", at, p.counted, p.count, got)
			}
			if got := feed(p, at, ours, theirs); got != ours+theirs {
				t.Fatalf("afterwards passed %q", got)
			}
		}
	}
	p := newCountProbe("SUNSUBSCRIBE", 1)
	const denied = "-NOPERM this user has no permissions to run the 'sunsubscribe' command\r\n"
	if got := feed(p, 99, denied, denied); got != denied || !p.done || p.counted {
		t.Errorf("not allowed to ask: done %v, counted %v, passed %q", p.done, p.counted, got)
	}
}

func TestReplyProbe(t *testing.T) {
	const reply, next = "=16\r\ntxt:id=7 flags=N\r\n", "+OK\r\n"
	for at := 1; at <= len(reply); at++ {
		p := new(replyProbe)
		if got := feed(p, at, pushed, reply, next); got != pushed+next || string(p.reply) != reply || !p.done {
			t.Fatalf("cut at %d: got %q, passed %q", at, p.reply, got)
		}
	}
}

func TestParseClientInfo(t *testing.T) {
	for _, test := range []struct {
		reply             string
		want              clientInfo
		plain, subscribed bool
	}{
		{"$45\r\nid=7 addr=a:1 laddr=b:2 name=x age=0 flags=N db=3 sub=0 resp=2\n\r\n", clientInfo{"N", "x", 3, 2}, true, false},
		{"=45\r\ntxt:id=7 name= flags=U db=0 resp=3\n\r\n", clientInfo{"U", "", 0, 3}, true, false},
		{"$45\r\nid=7 name= flags=N db=0\n\r\n", clientInfo{"N", "", 0, 0}, false, false},
		{"$45\r\nid=7 name= flags=tPU db=0 resp=3\n\r\n", clientInfo{"tPU", "", 0, 3}, false, true},
		{"$45\r\nid=7 name= flags=e db=0 resp=3\n\r\n", clientInfo{"e", "", 0, 3}, false, false},
		{"-ERR unknown subcommand flags=N resp=2\r\n", clientInfo{}, false, true},
	} {
		got := parseClientInfo([]byte(test.reply))
		if got != test.want || got.isPlain() != test.plain || got.subscribed() != test.subscribed {
			t.Errorf("%q: got %+v, plain %v, subscribed %v, want %+v", test.reply, got, got.isPlain(), got.subscribed(), test)
		}
	}
}
