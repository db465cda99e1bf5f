package cluster

import (
	"errors"
	"strconv"
	"strings"
)

var errCommand = errors.New("not a reply to COMMAND")

// Commands knows where the keys of commands are, as a server's COMMAND tells.
type Commands map[string]*command

// command is one command, or a subcommand of one.
type command struct {
	first       int       // the word that is the first key; 0: none, or see specs
	specs       []keySpec // of commands whose keys are not always at the same place
	subcommands Commands
}

// keySpec is a way to find keys, as in the key specifications of COMMAND.
type keySpec struct {
	keyword string // the keys are behind this word, looked for from index on
	index   int    // else they begin at this word; from the end if negative
	counted bool   // a number of keys comes first
	number  int    // where, from the beginning
	first   int    // where the first key is then, from the beginning
}

// older are the keys of the commands whose place Redis before 7.0 does not tell.
// There may be more: a server says of any key that it is another's.
var older = map[string][]keySpec{
	"EVAL":       {{index: 2, counted: true, first: 1}},
	"EVALSHA":    {{index: 2, counted: true, first: 1}},
	"XREAD":      {{keyword: "STREAMS", index: 1}},
	"XREADGROUP": {{keyword: "STREAMS", index: 4}},
	"ZUNION":     {{index: 1, counted: true, first: 1}},
	"ZINTER":     {{index: 1, counted: true, first: 1}},
	"ZDIFF":      {{index: 1, counted: true, first: 1}},
	"MEMORY":     {{index: 2}},
}

// ParseCommands reads the reply to COMMAND in RESP2.
func ParseCommands(reply any) (Commands, error) {
	entries, ok := reply.([]any)
	if !ok {
		return nil, errCommand
	}
	c := make(Commands, len(entries))
	for _, entry := range entries {
		if err := c.add(entry); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c Commands) add(entry any) error {
	fields, ok := entry.([]any)
	if !ok || len(fields) < 6 {
		return errCommand
	}
	name, nameOK := fields[0].(string)
	first, firstOK := fields[3].(int64)
	if !nameOK || !firstOK {
		return errCommand
	}
	if _, sub, ok := strings.Cut(name, "|"); ok {
		name = sub
	}
	name = strings.ToUpper(name)
	known := &command{first: int(first)}
	if len(fields) >= 10 {
		known.specs = parseSpecs(fields[8])
		if subcommands, _ := fields[9].([]any); len(subcommands) > 0 {
			var err error
			if known.subcommands, err = ParseCommands(subcommands); err != nil {
				return err
			}
		}
	} else {
		known.specs = older[name]
	}
	c[name] = known
	return nil
}

// parseSpecs reads key specifications as far as they can be read.
func parseSpecs(list any) (specs []keySpec) {
	entries, _ := list.([]any)
	for _, entry := range entries {
		begin, find := field(entry, "begin_search"), field(entry, "find_keys")
		beginSpec, findSpec := field(begin, "spec"), field(find, "spec")
		var spec keySpec
		switch text(field(begin, "type")) {
		case "index":
			spec.index = number(field(beginSpec, "index"))
		case "keyword":
			spec.keyword = strings.ToUpper(text(field(beginSpec, "keyword")))
			spec.index = number(field(beginSpec, "startfrom"))
		default:
			continue
		}
		switch text(field(find, "type")) {
		case "range":
		case "keynum":
			spec.counted = true
			spec.number = number(field(findSpec, "keynumidx"))
			spec.first = number(field(findSpec, "firstkey"))
		default:
			continue
		}
		specs = append(specs, spec)
	}
	return specs
}

// field returns the value behind a name in a map of RESP2.
func field(list any, name string) any {
	pairs, _ := list.([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == name {
			return pairs[i+1]
		}
	}
	return nil
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func number(value any) int {
	n, _ := value.(int64)
	return int(n)
}

// Key returns the first key of a command, by which it is known where it belongs:
// the node there sees to it that the others do too. It reports false for a
// command that has no key, or is not known.
func (c Commands) Key(args [][]byte) (key []byte, ok bool) {
	known := c.find(args[0])
	if known == nil {
		return nil, false
	}
	if known.subcommands != nil && len(args) > 1 {
		if sub := known.subcommands.find(args[1]); sub != nil {
			known = sub
		}
	}
	if known.first > 0 {
		return at(args, known.first)
	}
	for _, spec := range known.specs {
		if key, ok = spec.key(args); ok {
			return key, ok
		}
	}
	return nil, false
}

func at(args [][]byte, i int) ([]byte, bool) {
	if i <= 0 || i >= len(args) {
		return nil, false
	}
	return args[i], true
}

// longestName bounds the names of commands.
const longestName = 64

// find returns what is known of a command named in any letter case, or nil.
func (c Commands) find(name []byte) *command {
	var upper [longestName]byte
	if len(name) > len(upper) {
		return nil
	}
	for i, b := range name {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	return c[string(upper[:len(name)])]
}

func (s *keySpec) key(args [][]byte) ([]byte, bool) {
	begin := s.begin(args)
	if !s.counted {
		return at(args, begin)
	}
	count, ok := at(args, begin+s.number)
	if n, err := strconv.Atoi(string(count)); !ok || err != nil || n <= 0 {
		return nil, false
	}
	return at(args, begin+s.first)
}

// begin returns where the keys begin, or 0.
func (s *keySpec) begin(args [][]byte) int {
	if s.keyword == "" {
		return s.index
	}
	if s.index < 0 {
		for i := len(args) + s.index; i > 0; i-- {
			if strings.EqualFold(string(args[i]), s.keyword) {
				return i + 1
			}
		}
		return 0
	}
	for i := s.index; i < len(args) && i > 0; i++ {
		if strings.EqualFold(string(args[i]), s.keyword) {
			return i + 1
		}
	}
	return 0
}
