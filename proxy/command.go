package proxy

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
	"cellproxy/commands"
)

// command handles COMMAND: the upstream tells of its commands, and the proxy
// adds the limiters. In a transaction and on a wire the upstream answers alone,
// but for COMMAND GETKEYS.
func (s *session) command(cmd redcon.Command) {
	sub := ""
	if len(cmd.Args) > 1 {
		sub = strings.ToUpper(string(cmd.Args[1]))
	}
	if sub == "GETKEYS" || sub == "GETKEYSANDFLAGS" {
		s.forward(withStandIn(cmd))
		return
	}
	if s.sticky || s.multi {
		s.forward(cmd)
		return
	}
	reply, err := s.ask(s.stream, cmd.Raw)
	if err != nil {
		return
	}
	s.reply(withLimiters(reply, sub, cmd.Args[min(2, len(cmd.Args)):], s.identity.Protocol))
}

// standIn is a command of one key, read and written, as those of all limiters
// are.
var standIn = []byte("INCR")

// withStandIn puts the stand-in in the place of the limiter command that
// COMMAND GETKEYS asks about, with a key too many if its number of words is
// wrong: the upstream then finds the same keys, or the same fault.
func withStandIn(cmd redcon.Command) redcon.Command {
	if len(cmd.Args) < 3 {
		return cmd
	}
	limiter := commands.Lookup(cmd.Args[2])
	if limiter == nil {
		return cmd
	}
	args := [][]byte{cmd.Args[0], cmd.Args[1], standIn}
	switch words := cmd.Args[2:]; {
	case limiter.Fits(len(words)):
		args = append(args, words[1])
	case len(words) > 1:
		args = append(args, words[1], words[1])
	}
	return encode(args)
}

// withLimiters adds the limiter commands to the upstream's reply to COMMAND, or
// to a subcommand of it with arguments. A reply of another shape than that of
// Redis stays as it is.
func withLimiters(reply []byte, sub string, args [][]byte, protocol int) []byte {
	head, rest, ok := cutHeader(reply)
	if !ok {
		return reply
	}
	switch {
	case sub == "COUNT" && head.mark == ':':
		return header{':', head.count + len(commands.All())}.append(nil)
	case sub == "" && head.mark == '*', sub == "INFO" && head.mark == '*' && len(args) == 0:
		for _, limiter := range commands.All() {
			rest = limiter.AppendInfo(rest, protocol)
			head.count++
		}
	case sub == "INFO" && head.mark == '*' && head.count == len(args):
		rest = namedInfo(rest, args, protocol)
	case sub == "DOCS" && (head.mark == '*' || head.mark == '%'):
		limiters := documented(args)
		for _, limiter := range limiters {
			rest = limiter.AppendDocs(rest, protocol)
		}
		head.count += len(limiters)
		if head.mark == '*' { // a name and an entry are two elements
			head.count += len(limiters)
		}
	case sub == "LIST" && head.mark == '*':
		for _, limiter := range commands.All() {
			if listed(limiter, args) {
				rest = redcon.AppendBulkString(rest, strings.ToLower(limiter.Name))
				head.count++
			}
		}
	default:
		return reply
	}
	return append(head.append(nil), rest...)
}

// header is the first line of a reply that counts something, or is a number.
type header struct {
	mark  byte
	count int
}

// cutHeader takes the header off a reply. What is behind it may be appended to
// without changing the reply.
func cutHeader(reply []byte) (h header, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(reply, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return h, nil, false
	}
	h.mark = line[0]
	h.count, _ = strconv.Atoi(string(line[1:]))
	return h, slices.Clip(rest), true
}

func (h header) append(dst []byte) []byte {
	dst = append(dst, h.mark)
	dst = strconv.AppendInt(dst, int64(h.count), 10)
	return append(dst, '\r', '\n')
}

// namedInfo puts the limiters' entries in the places of the nulls that the
// upstream has for them in its entries for names.
func namedInfo(entries []byte, names [][]byte, protocol int) []byte {
	var all []byte
	for _, name := range names {
		n := backend.ReplyLength(entries)
		if limiter := commands.Lookup(name); limiter != nil {
			all = limiter.AppendInfo(all, protocol)
		} else {
			all = append(all, entries[:n]...)
		}
		entries = entries[n:]
	}
	return all
}

// documented returns the limiters among names, or all if there are no names.
func documented(names [][]byte) []*commands.Command {
	if len(names) == 0 {
		return commands.All()
	}
	var limiters []*commands.Command
	for _, name := range names {
		if limiter := commands.Lookup(name); limiter != nil {
			limiters = append(limiters, limiter)
		}
	}
	return limiters
}

// listed reports whether COMMAND LIST [FILTERBY MODULE|ACLCAT|PATTERN value]
// lists a limiter.
func listed(limiter *commands.Command, filter [][]byte) bool {
	if len(filter) == 0 {
		return true
	}
	if len(filter) != 3 {
		return false
	}
	value := strings.ToLower(string(filter[2]))
	switch strings.ToUpper(string(filter[1])) {
	case "ACLCAT":
		return slices.Contains(commands.Categories, value)
	case "PATTERN":
		matches, _ := path.Match(value, strings.ToLower(limiter.Name))
		return matches
	}
	return false
}
