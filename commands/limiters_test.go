package commands

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
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

// randomWindow draws windows of every order of magnitude.
func randomWindow(r *rand.Rand) window {
	switch r.IntN(6) {
	case 0: // the largest
		return window{limit: 1 + upTo(r, maxCount), micros: 1000 * (1 + upTo(r, maxCount))}
	case 1: // a few microseconds a unit
		return window{limit: 1 + upTo(r, 1000), micros: 1000}
	}
	return window{limit: 1 + upTo(r, 30), micros: 1000 * (1 + upTo(r, 100_000))}
}

// admission is an entry of a log.
type admission struct{ micros, quantity int64 }

// sum adds up the quantities of those admissions that count.
func sum(log []admission, counts func(admission) bool) (total int64) {
	for _, a := range log {
		if counts(a) {
			total += a.quantity
		}
	}
	return total
}

// logOracle tells from the log of all admissions how much of a limit is used at
// a moment.
type logOracle func(log []admission, nowMicros int64) (used int64)

// againstLog takes at random on the model, as time goes on, and compares what is
// admitted and what remains with what an oracle has of a complete log. After a
// refusal it tries at the moment that was told, and the microsecond before the
// millisecond before it.
func againstLog(t *testing.T, command string, draw func(*rand.Rand, window) (options []string, oracle logOracle)) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	for range 1000 {
		w := window{limit: 1 + upTo(r, 20), micros: 1000 * (1 + upTo(r, 10_000))}
		options, oracle := draw(r, w)
		words := []string{command, "k", fmt.Sprint(w.limit), fmt.Sprint(w.micros / 1000)}
		var state State
		var log []admission
		take := func(now, quantity int64) []int64 {
			after, reply, err := parse(t, slices.Concat(words, []string{fmt.Sprint(quantity)}, options)...).Model(state, now)
			if err != nil {
				t.Fatal(err)
			}
			used := oracle(log, now)
			wantLimited := limitedNumber(used+quantity > w.limit)
			if wantLimited == 0 && quantity > 0 {
				log = append(log, admission{now, quantity})
				used += quantity
			}
			if reply[0] != wantLimited || reply[2] != w.limit-used {
				t.Fatalf("%q %q: %d at %d: got %d, want limited %d, remaining %d\n%+v\nlog %+v",
					words, options, quantity, now, reply, wantLimited, w.limit-used, state, log)
			}
			state = after
			return reply
		}
		now := someMicros
		for range 60 {
			now += r.Int64N(w.micros / 3)
			quantity := r.Int64N(1 + r.Int64N(w.limit+1))
			reply := take(now, quantity)
			if reply[3] > 0 {
				refused++
				early := max(now, now+(reply[3]-1)*1000-1)
				if got := take(early, quantity); got[0] != 1 {
					t.Fatalf("%q %q: %d at %d: told to wait %d, but %d µs later got %d", words, options, quantity, now, reply[3], early-now, got)
				}
				if now += reply[3] * 1000; take(now, quantity)[0] != 0 {
					t.Fatalf("%q %q: told to wait %d for %d, and refused at %d", words, options, reply[3], quantity, now)
				}
			}
			if r.IntN(20) == 0 { // the state is to be idle by then
				now += take(now, 0)[4] * 1000
				if got := take(now, 0); got[2] != w.limit {
					t.Fatalf("%q %q: not reset at %d: %d", words, options, now, got)
				}
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d refused", refused)
	}
}

// TestOneKeyOneAlgorithm runs every command on the state of every other: it
// answers an error and leaves the state alone.
func TestOneKeyOneAlgorithm(t *testing.T) {
	onStores(t, func(t *testing.T, s *store) {
		for _, first := range All() {
			for _, second := range All() {
				if first == second {
					continue
				}
				steps := []step{{someMicros, example(first, "k")}, {someMicros + 1, example(second, "k")}, {someMicros + 2, example(first, "k")}}
				agree(t, s, steps)
				outcomes := modelled(t, steps)
				if got, want := outcomes[1].reply, "-ERR value is not a state of "+second.Name+"\r\n"; got != want {
					t.Errorf("%s after %s: got %q, want %q", second.Name, first.Name, got, want)
				}
				if outcomes[1].value != outcomes[0].value || outcomes[2].reply[0] == '-' {
					t.Errorf("%s after %s: state %q became %q", second.Name, first.Name, outcomes[0].value, outcomes[1].value)
				}
			}
		}
	})
}
