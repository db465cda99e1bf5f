package commands

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cellproxy/test/wire"
)

func TestLookup(t *testing.T) {
	for name, want := range map[string]*Command{
		"CL.THROTTLE": clThrottle, "cl.throttle": clThrottle, "Cl.ThRoTtLe": clThrottle,
		"": nil, "CL": nil, "CL.THROTTL": nil, "CL.THROTTLES": nil, "CL\x0eTHROTTLE": nil, "GET": nil,
	} {
		if got := Lookup([]byte(name)); got != want {
			t.Errorf("Lookup(%q) = %v, want %v", name, got, want)
		}
	}
	name := []byte("cl.Throttle")
	if n := testing.AllocsPerRun(100, func() { Lookup(name) }); n != 0 {
		t.Errorf("Lookup allocates %v times", n)
	}
}

// TestTable walks the table: what holds for every command.
func TestTable(t *testing.T) {
	names := make(map[string]bool)
	for _, command := range All() {
		t.Run(command.Name, func(t *testing.T) {
			if command.Name != strings.ToUpper(command.Name) || names[command.Name] {
				t.Error("the name is not unique and in upper case")
			}
			names[command.Name] = true
			if Lookup([]byte(strings.ToLower(command.Name))) != command {
				t.Error("it is not found by its name")
			}
			if command.Summary == "" || !strings.HasPrefix(command.Usage, command.Name+" key ") {
				t.Errorf("summary %q, usage %q", command.Summary, command.Usage)
			}
			checkArity(t, command)
			checkArguments(t, command)
			checkHeader(t, command.Script)
			checkReadme(t, command)
		})
	}
}

// checkArity sees that words are counted as COMMAND says.
func checkArity(t *testing.T, command *Command) {
	t.Helper()
	words := make([]string, 64)
	words[0] = command.Name
	want := "ERR wrong number of arguments for '" + strings.ToLower(command.Name) + "' command"
	for n := 1; n < len(words); n++ {
		_, err := tryParse(words[:n]...)
		fits := n >= -command.Arity && (command.maxWords == 0 || n <= command.maxWords)
		if (errorText(err) == want) == fits {
			t.Errorf("%d words: got error %q", n, errorText(err))
		}
	}
}

// checkArguments compares the arguments with Arity and Usage.
func checkArguments(t *testing.T, command *Command) {
	t.Helper()
	required := 1
	for i, argument := range command.Arguments {
		if (argument.Type == "key") != (i == 0) {
			t.Errorf("argument %s: type %s", argument.Name, argument.Type)
		}
		if !argument.Optional {
			required += max(1, len(argument.Arguments))
		}
	}
	if command.Arity != -required {
		t.Errorf("arity %d with %d required words", command.Arity, required)
	}
	known := argumentWords(command.Arguments)
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(command.Usage, command.Name), -1) {
		if !slices.Contains(known, word) {
			t.Errorf("usage %q: no argument %q", command.Usage, word)
		}
	}
}

// checkReadme sees that a command has its section, with a row for each argument.
func checkReadme(t *testing.T, command *Command) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "\n### "+command.Name+"\n")
	if !found {
		t.Fatal("the README has no section of it")
	}
	section, _, _ = strings.Cut(section, "\n### ")
	if !strings.Contains(section, "\n"+command.Name+" ") {
		t.Error("the README shows no call of it")
	}
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(command.Usage, command.Name), -1) {
		if !strings.Contains(section, "\n| `"+word) {
			t.Errorf("the README's section of it does not tell %s", word)
		}
	}
}

// argumentWords returns all names and tokens.
func argumentWords(arguments []Argument) []string {
	var words []string
	for _, a := range arguments {
		words = append(words, a.Name, a.Token)
		words = append(words, argumentWords(a.Arguments)...)
	}
	return words
}

// checkHeader sees that a script says what goes in and out, and that it keeps
// what managed Redis services ask for: the key only ever as KEYS[1].
func checkHeader(t *testing.T, script *Script) {
	t.Helper()
	header, code, _ := strings.Cut(script.Source, "\n\n")
	for _, word := range []string{"KEYS[1]", "ARGV[1]", "State", "Reply", "now_us"} {
		if !strings.Contains(header, "-- "+word) && !strings.Contains(header, "  "+word) {
			t.Errorf("the script's header does not tell %s", word)
		}
	}
	for _, line := range strings.Split(header, "\n") {
		if !strings.HasPrefix(line, "--") {
			t.Errorf("the script's header has the line %q", line)
		}
	}
	if regexp.MustCompile(`KEYS\W*[^\[]`).MatchString(strings.ReplaceAll(code, "KEYS[1]", "")) {
		t.Error("the script uses KEYS other than as KEYS[1]")
	}
	if sum, err := hex.DecodeString(script.SHA1); err != nil || len(sum) != 20 || script.SHA1 != strings.ToLower(script.SHA1) {
		t.Errorf("SHA1 is %q", script.SHA1)
	}
}

func TestScriptsAreDistinct(t *testing.T) {
	var sums []string
	for _, script := range Scripts() {
		sums = append(sums, script.SHA1)
	}
	for _, command := range All() {
		if !slices.Contains(sums, command.Script.SHA1) {
			t.Errorf("the script of %s is missing", command.Name)
		}
	}
	slices.Sort(sums)
	if len(slices.Compact(slices.Clone(sums))) != len(sums) {
		t.Errorf("got %q twice", sums)
	}
}

func TestBothFormsOfARun(t *testing.T) {
	for _, command := range All() {
		call := parse(t, example(command, "k\r\n\xff")...)
		script := command.Script
		argv := make([]string, len(call.argv))
		for i, n := range call.argv {
			argv[i] = intText(n)
		}
		rest := append([]string{"1", "k\r\n\xff"}, argv...)
		evalsha := wire.Encode(append([]string{"EVALSHA", script.SHA1}, rest...))
		eval := wire.Encode(append([]string{"EVAL", script.Source}, rest...))
		before := []byte("before")
		if got := call.AppendEvalSHA(before); !bytes.Equal(got, append(slices.Clone(before), evalsha...)) {
			t.Errorf("%s: AppendEvalSHA = %q, want %q", command.Name, got, evalsha)
		}
		if got := call.AppendEval(nil); !bytes.Equal(got, eval) {
			t.Errorf("%s: AppendEval = %q, want %q", command.Name, got, eval)
		}
		if string(call.Key()) != "k\r\n\xff" || call.Command() != command {
			t.Errorf("%s: key %q of %s", command.Name, call.Key(), call.Command().Name)
		}
	}
}

// TestParseReusesTheCall parses different commands into one call, and sees that
// nothing of the one before is left and nothing allocated.
func TestParseReusesTheCall(t *testing.T) {
	var call Call
	var dst []byte
	for range 2 {
		for _, command := range All() {
			args := byteWords(example(command, "k"))
			run := func() {
				if err := command.Parse(args, &call); err != nil {
					t.Fatal(err)
				}
				dst = call.AppendEvalSHA(dst[:0])
			}
			run()
			if want := parse(t, example(command, "k")...).AppendEvalSHA(nil); !bytes.Equal(dst, want) {
				t.Errorf("%s: got %q, want %q", command.Name, dst, want)
			}
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%s: allocates %v times", command.Name, n)
			}
		}
	}
}

// FuzzParse feeds arguments to every command: what is accepted must encode as
// one well-formed EVALSHA, turn into EVAL, and run on the model.
func FuzzParse(f *testing.F) {
	for i, command := range All() {
		f.Add(byte(i), strings.Join(example(command, "k")[1:], " "))
	}
	for _, words := range []string{
		"", "k", "k 15 30 60 0", "k 15 30 60 -3", "k +1 01 1", "k 0 0 0", "k -1 -1 -1",
		"k 9223372036854775807 1 1", "k 9007199254740991 1000000000 1", "k 0 1 9223372036854775807",
		"k 15 30 60 9223372036854775807", "k 15 30 60 -9223372036854775808",
		"k 10 1000 ALIGN", "k 10 1000 1 ALIGN -3600000", "k 10 1000 SLICES 7", "k 10 1000 1 exact",
		"k 1 10 1000 100 60000", "k 1 10 1000 100",
	} {
		for i := range All() {
			f.Add(byte(i), words)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, words string) {
		command := All()[int(which)%len(All())]
		args := append([]string{command.Name}, strings.Split(words, " ")...)
		call, err := tryParse(args...)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "ERR ") || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%q: error %q", args, err)
			}
			return
		}
		var again Call
		if err := ParseRaw(wire.Encode(args), &again); err != nil || !bytes.Equal(again.AppendEval(nil), call.AppendEval(nil)) {
			t.Errorf("%q: another call from the wire, %v", args, err)
		}
		state, reply, err := call.Model(State{}, someMicros)
		if err == nil && (len(reply) < 5 || reply[0] != 0 && reply[0] != 1 || reply[2] < 0 || reply[2] > reply[1] || reply[3] < -1 || reply[4] < 0) {
			t.Errorf("%q: reply %d", args, reply)
		}
		if state.Exists && state.ExpiresAt <= someMicros/1000 {
			t.Errorf("%q: left %+v", args, state)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, command := range All() {
		b.Run(command.Name, func(b *testing.B) {
			args := byteWords(example(command, "user123"))
			var call Call
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				if err := command.Parse(args, &call); err != nil {
					b.Fatal(err)
				}
				dst = call.AppendEvalSHA(dst[:0])
			}
		})
	}
}
