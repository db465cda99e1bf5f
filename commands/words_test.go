package commands

import (
	"slices"
	"testing"
)

func TestAsEval(t *testing.T) {
	throttle := []string{"cl.throttle", "a key", "15", "30", "60"}
	rest := []string{"1", "a key", "30", "0", "2", "0", "2000000", "16"}
	for _, test := range []struct {
		as   func([]string) ([]string, error)
		in   []string
		want []string
	}{
		{AsEvalSHA, throttle, append([]string{"EVALSHA", clThrottle.Script.SHA1}, rest...)},
		{AsEval, throttle, append([]string{"EVAL", clThrottle.Script.Source}, rest...)},
		{AsEvalSHA, []string{"GET", "k"}, []string{"GET", "k"}},
		{AsEval, []string{"PING"}, []string{"PING"}},
	} {
		if got, err := test.as(test.in); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, %v, want %q", test.in, got, err, test.want)
		}
	}
	if got, err := AsEval([]string{"CL.THROTTLE", "k"}); err == nil {
		t.Errorf("too few words: got %q", got)
	}
}
