package proxy

import "testing"

func TestProbeKeepsWhatItIsFor(t *testing.T) {
	p := newProbe(12345)
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
