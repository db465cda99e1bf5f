package commands

import (
	"fmt"
	"strings"
	"testing"
)

// parseErrors parses a command with arguments and compares the errors' texts,
// "" for none.
func parseErrors(t *testing.T, command string, want map[string]string) {
	t.Helper()
	for args, want := range want {
		_, err := tryParse(append([]string{command}, strings.Fields(args)...)...)
		if got := errorText(err); got != want {
			t.Errorf("%s %s: got error %q, want %q", command, args, got, want)
		}
	}
}

func arityText(command *Command) string { return arityError(command).Error() }

// stepRow is a step on one key and what must come of it.
type stepRow struct {
	afterMicros int64 // someMicros
	words       string
	want        []int64
	wantValue   string // "" for none
	wantPTTL    int64  // what the last change set
}

// runSteps runs rows of steps on the script on each store, and on the model.
func runSteps(t *testing.T, command string, tests map[string][]stepRow) {
	t.Helper()
	onStores(t, func(t *testing.T, s *store) {
		for name, rows := range tests {
			t.Run(name, func(t *testing.T) { runRows(t, s, command, rows) })
		}
	})
}

func runRows(t *testing.T, s *store, command string, rows []stepRow) {
	t.Helper()
	steps := make([]step, len(rows))
	for i, row := range rows {
		steps[i] = step{someMicros + row.afterMicros, append([]string{command, "k"}, strings.Fields(row.words)...)}
	}
	agree(t, s, steps)
	for i, got := range modelled(t, steps) {
		row := rows[i]
		want := outcome{rawReply(row.want, nil), "$-1\r\n", ":-2\r\n"}
		if row.wantValue != "" {
			want.value, want.pttl = bulk(row.wantValue), fmt.Sprintf(":%d\r\n", row.wantPTTL)
		}
		if got != want {
			t.Errorf("%v:\n got %q\nwant %q", steps[i], got, want)
		}
	}
}

// rejectsValues sees that a command answers an error on strings that are no
// state of it, and leaves them.
func rejectsValues(t *testing.T, command *Command, prefix string, values []string) {
	t.Helper()
	values = append(values, "\x00", " ", "5", "hello", strings.Repeat("1", 400))
	want := "-ERR value is not a state of " + command.Name + "\r\n"
	call := parse(t, example(command, "k")...)
	onStores(t, func(t *testing.T, s *store) {
		for _, value := range values {
			value = prefix + value
			s.Do("SET", "k", value)
			if got := s.run(t, call, someMicros); got != want {
				t.Errorf("%q: script: got %q, want %q", value, got, want)
			}
			if got, want := s.Do("GET", "k"), bulk(value); got != want {
				t.Errorf("%q became %q", value, got)
			}
			state := State{Exists: true, Value: value}
			if after, _, err := call.Model(state, someMicros); "-"+errorText(err)+"\r\n" != want || after != state {
				t.Errorf("%q: model: got error %v, state %+v", value, err, after)
			}
		}
	})
}

// acceptsValues sees that script and model read the same out of a state.
func acceptsValues(t *testing.T, command *Command, prefix string, values []string) {
	t.Helper()
	call := parse(t, example(command, "k")...)
	onStores(t, func(t *testing.T, s *store) {
		for _, value := range values {
			value = prefix + value
			s.Do("SET", "k", value)
			_, reply, err := call.Model(State{Exists: true, Value: value}, someMicros)
			if got, want := s.run(t, call, someMicros), rawReply(reply, err); err != nil || got != want {
				t.Errorf("%q: script: got %q, model %q", value, got, want)
			}
		}
	})
}
