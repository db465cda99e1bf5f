package wire

import (
	"bufio"
	"strings"
	"testing"
)

func TestReadReplyTakesOneReply(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n",
		"$-1\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n", "=7\r\ntxt:a\r\n\r\n", "!3\r\nERR\r\n",
		"*-1\r\n", "*0\r\n", "*2\r\n:1\r\n*1\r\n$1\r\na\r\n", "~1\r\n+a\r\n", ">2\r\n+a\r\n:1\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "|1\r\n+ttl\r\n:3\r\n:7\r\n",
	} {
		var b strings.Builder
		r := bufio.NewReader(strings.NewReader(reply + "+next\r\n"))
		if err := readReply(r, &b); err != nil || b.String() != reply {
			t.Errorf("readReply = %q, %v, want %q", b.String(), err, reply)
		}
	}
}

func TestReadReplyRefusesNonsense(t *testing.T) {
	for _, reply := range []string{"", "OK\r\n", "+OK\n", "$3\r\nab", "*2\r\n:1\r\n", "$x\r\n"} {
		var b strings.Builder
		if err := readReply(bufio.NewReader(strings.NewReader(reply)), &b); err == nil {
			t.Errorf("readReply(%q) has no error", reply)
		}
	}
}

func TestEncode(t *testing.T) {
	got := string(Encode([]string{"GET", "a\r\n"}, []string{"PING"}))
	want := "*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n*1\r\n$4\r\nPING\r\n"
	if got != want {
		t.Errorf("Encode = %q, want %q", got, want)
	}
}

func TestSorted(t *testing.T) {
	for _, x := range []struct{ reply, want string }{
		{"+OK\r\n", "+OK\r\n"},
		{"*0\r\n", "*0\r\n"},
		{"$1\r\n*\r\n", "$1\r\n*\r\n"},
		{"*2\r\n$1\r\nb\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{"*2\r\n~2\r\n:2\r\n:1\r\n%1\r\n+b\r\n+a\r\n", "*2\r\n%1\r\n+a\r\n+b\r\n~2\r\n:1\r\n:2\r\n"},
	} {
		if got := Sorted(x.reply); got != x.want {
			t.Errorf("Sorted(%q) = %q, want %q", x.reply, got, x.want)
		}
	}
}
