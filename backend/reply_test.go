package backend

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// replies are whole RESP2 and RESP3 replies.
var replies = []string{
	"+OK\r\n",
	"+\r\n",
	"-ERR no\r\n",
	":-12\r\n",
	"$0\r\n\r\n",
	"$5\r\na\r\nbc\r\n",
	"$-1\r\n",
	"*-1\r\n",
	"*0\r\n",
	"*2\r\n$1\r\na\r\n:1\r\n",
	"*2\r\n*2\r\n:1\r\n*0\r\n$-1\r\n",
	"_\r\n",
	"#t\r\n",
	",1.5\r\n",
	"(123456789012345678901234567890\r\n",
	"!5\r\nERR a\r\n",
	"=7\r\ntxt:abc\r\n",
	"%0\r\n",
	"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n",
	"~2\r\n:1\r\n:2\r\n",
	">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
	"|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n",
	"*1\r\n|1\r\n+ttl\r\n:9\r\n:1\r\n",
}

// split frames stream, which arrives in pieces of size bytes, into replies.
func split(stream []byte, size int) (whole []string, err error) {
	var f framer
	var reply, have []byte
	for len(stream) > 0 || len(have) > 0 {
		piece := min(size, len(stream))
		have = append(have, stream[:piece]...)
		stream = stream[piece:]
		for len(have) > 0 {
			n, last, err := f.next(have)
			if err != nil {
				return whole, err
			}
			reply = append(reply, have[:n]...)
			have = have[n:]
			if last {
				whole = append(whole, string(reply))
				reply = nil
			} else {
				break
			}
		}
		if piece == 0 {
			return whole, fmt.Errorf("left over: %q %q", reply, have)
		}
	}
	if len(reply) > 0 {
		return whole, fmt.Errorf("left over: %q", reply)
	}
	return whole, nil
}

func TestFramerFindsEveryReply(t *testing.T) {
	var stream []byte
	for _, r := range replies {
		stream = append(stream, r...)
	}
	for size := 1; size <= len(stream); size++ {
		got, err := split(stream, size)
		if err != nil {
			t.Fatalf("pieces of %d: %v", size, err)
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", replies) {
			t.Fatalf("pieces of %d: got %q, want %q", size, got, replies)
		}
	}
}

// TestFramerHoldsNothingOfHalfALine: of a reply whose first line is not whole,
// nothing has been passed on, so another can still take its place.
func TestFramerHoldsNothingOfHalfALine(t *testing.T) {
	for half, want := range map[string]bool{"+O": false, "$5\r": false, "$5\r\n": true, "*2\r\n:1": true} {
		var f framer
		n, _, err := f.next([]byte(half))
		if f.inside != want || (n > 0) != want || err != nil {
			t.Errorf("%q: inside is %v after %d bytes, %v, want %v", half, f.inside, n, err, want)
		}
		if _, whole, _ := f.next([]byte("+OK\r\n")); !want && !whole {
			t.Errorf("%q: the next reply is not found", half)
		}
	}
}

func TestFramerRefusesWhatIsNotRESP(t *testing.T) {
	for _, bad := range []string{"HTTP/1.1 400\r\n", "$x\r\n", "$5\n", "*-2\r\n", "$99999999999999999999\r\n", "\r\n", "$\r\n"} {
		var f framer
		if _, _, err := f.next([]byte(bad)); !errors.Is(err, errReply) {
			t.Errorf("%q: got error %v, want %v", bad, err, errReply)
		}
	}
}

// FuzzFramer checks that how a stream is cut does not matter.
func FuzzFramer(f *testing.F) {
	for _, r := range replies {
		f.Add([]byte(r), 1)
	}
	f.Add(bytes.Repeat([]byte("*1\r\n"), 100), 3)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		if size < 1 {
			size = 1
		}
		want, wantErr := split(stream, len(stream)+1)
		got, gotErr := split(stream, size)
		if fmt.Sprint(got) != fmt.Sprint(want) || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("pieces of %d: got %q, %v; whole: %q, %v", size, got, gotErr, want, wantErr)
		}
	})
}
