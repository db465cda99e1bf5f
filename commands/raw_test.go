package commands

import (
	"slices"
	"testing"
	"time"

	"cellproxy/test/wire"
)

func TestParseRawOfOthers(t *testing.T) {
	ours := string(wire.Encode([]string{"CL.THROTTLE", "k", "15", "30", "60"}))
	for _, raw := range []string{
		"", "*", "*0\r\n", "*-1\r\n", "*1\r\n", "*1\r\n$4\r\nPING\r\n", "*1\r\n$-1\r\n", "*1\r\n$4\r\nPIN",
		"*1\r\n$99999999999999999999\r\n", "*999999999\r\n" + ours[4:], ours[:len(ours)-2], "CL.THROTTLE k 15 30 60\r\n",
	} {
		var call Call
		if err := ParseRaw([]byte(raw), &call); err == nil {
			t.Errorf("%q became %q", raw, call.AppendEval(nil))
		}
	}
}

// TestDenied has every command refuse, whatever its state, in its own shape.
func TestDenied(t *testing.T) {
	for _, command := range All() {
		call := parse(t, example(command, "k")...)
		_, want, err := call.Model(State{}, someMicros)
		if err != nil {
			t.Fatal(err)
		}
		wait := int64(1500)
		if command.Seconds {
			wait = 2
		}
		want[0], want[2], want[3], want[4] = 1, 0, wait, wait
		if len(want) == 6 {
			want[5] = 0
		}
		got, err := call.Denied(someMicros, 1500*time.Millisecond)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d, %v, want %d", command.Name, got, err, want)
		}
	}
}

func TestAppendReply(t *testing.T) {
	if got, want := string(AppendReply([]byte("x"), []int64{0, 16, -1})), "x*3\r\n:0\r\n:16\r\n:-1\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
