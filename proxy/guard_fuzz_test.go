package proxy

import (
	"slices"
	"strings"
	"testing"
)

// FuzzGuard checks that what the guard and redcon make of a stream is what the
// reference makes of it, however it is cut, and that the commands passed on
// mean the same again.
func FuzzGuard(f *testing.F) {
	for _, tt := range slices.Concat(streams, moreStreams) {
		if len(tt.in) < 4096 {
			f.Add(tt.in, uint16(3), !tt.stranger)
		}
	}
	for _, in := range []string{
		"*1\r\n$9223372036854775807\r\n", "*9223372036854775807\r\n", "*1\r\n", "*", "$", "\n", "\"",
		"*2\r\n$1\r\n", "*1\r\n$18446744073709551617\r\nx\r\n", "*-1\r\n$-1\r\n", strings.Repeat("*1\r\n", 100),
	} {
		f.Add(in, uint16(1), true)
	}
	f.Fuzz(func(t *testing.T, in string, size uint16, authenticated bool) {
		want, wantErr := reference(in, authenticated)
		for _, size := range []int{1, int(size) + 1, len(in) + 1} {
			got, err := guarded(t, &pieces{in, size}, authenticated)
			compareCommands(t, got, want)
			if got := protocolText(t, err); got != wantErr {
				t.Errorf("got error %q, want %q", got, wantErr)
			}
			if t.Failed() {
				t.Fatalf("%q in pieces of %d", in, size)
			}
		}
		again, err := guarded(t, strings.NewReader(strings.Join(want, "")), true)
		compareCommands(t, again, want)
		if got := protocolText(t, err); got != "" {
			t.Errorf("passed on: got error %q", got)
		}
	})
}
