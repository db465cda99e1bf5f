package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tidwall/redcon"

	"cellproxy/commands"
)

// Random is what becomes a random number of 12 digits, as redis-benchmark has
// it.
const Random = "__rand_int__"

// Presets are commands with usual arguments, by their names. Their keys begin
// with bench: and go by themselves.
var Presets = map[string]string{
	"CL.THROTTLE": "CL.THROTTLE bench:cl:" + Random + " 15 30 60",
	"FW.ACQUIRE":  "FW.ACQUIRE bench:fw:" + Random + " 30 60000",
	"SW.ACQUIRE":  "SW.ACQUIRE bench:sw:" + Random + " 30 60000",
	"SL.ACQUIRE":  "SL.ACQUIRE bench:sl:" + Random + " 1 5 1000 30 60000",
	"TB.ACQUIRE":  "TB.ACQUIRE bench:tb:" + Random + " 16 30 60000",
	"LB.ACQUIRE":  "LB.ACQUIRE bench:lb:" + Random + " 16 30 60000",
	"GET":         "GET bench:string:" + Random,
	"SET":         "SET bench:string:" + Random + " xxx EX 60",
	"PING":        "PING",
}

var errNoPreset = errors.New("has no usual arguments: give it all of them")

// Complete returns the words of a command. A name alone gets the arguments of
// its preset.
func Complete(words []string) ([]string, error) {
	if len(words) != 1 {
		return words, nil
	}
	preset, found := Presets[strings.ToUpper(words[0])]
	if !found {
		return nil, fmt.Errorf("%s %w", words[0], errNoPreset)
	}
	return strings.Fields(preset), nil
}

// template is a command in RESP, with the places where random numbers go.
type template struct {
	text    []byte
	places  []int
	keys    int
	limiter bool     // its reply says whether it was limited
	load    []string // what makes its script known, or nothing
}

func newTemplate(l Load) (*template, error) {
	t := &template{keys: l.Keys}
	words := l.Command
	if command := commands.Lookup([]byte(words[0])); command != nil {
		t.limiter = true
		if l.EvalSHA {
			var err error
			if words, err = commands.AsEvalSHA(words); err != nil {
				return nil, err
			}
			t.load = []string{"SCRIPT", "LOAD", command.Script.Source}
		}
	}
	t.text = encode(words)
	for at := 0; ; {
		next := strings.Index(string(t.text[at:]), Random)
		if next < 0 {
			return t, nil
		}
		t.places = append(t.places, at+next)
		at += next + len(Random)
	}
}

func encode(words []string) []byte {
	b := redcon.AppendArray(nil, len(words))
	for _, word := range words {
		b = redcon.AppendBulkString(b, word)
	}
	return b
}

// fill writes new random numbers into a command at b.
func (t *template) fill(b []byte, random *rand.Rand) {
	for _, place := range t.places {
		digits := b[place : place+len(Random)]
		n := random.IntN(t.keys)
		for i := len(digits) - 1; i >= 0; i-- {
			digits[i] = '0' + byte(n%10)
			n /= 10
		}
	}
}
