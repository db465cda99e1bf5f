package proxy

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"cellproxy/backend"
	"cellproxy/commands"
)

// The commands of this file are about the client's connection. On the shared
// stream the proxy keeps what they set; a wire leaves them to the upstream, and
// within a transaction they make the session a wire.

var replyOK = []byte("+OK\r\n")

// owned reports whether the upstream must see a connection command itself, and
// sends it there if so.
func (s *session) owned(cmd redcon.Command) bool {
	switch {
	case s.sticky:
		s.forward(cmd)
	case (s.multi || s.watching) && s.server.config.Backend.Clustered():
		s.notInTransaction(cmd)
	case s.multi || s.watching:
		s.stick(cmd)
	default:
		return false
	}
	return true
}

// become moves the session to the stream of another identity if the upstream
// agrees to the command that asks for it. reply may change what it says.
func (s *session) become(next backend.Identity, command []byte) (reply []byte, ok bool) {
	if s.settle() != nil {
		return nil, false
	}
	stream := s.server.config.Backend.Lane(next)
	if err := stream.Connect(); err != nil {
		stream.Release()
		return refusal(err), false
	}
	reply, err := s.ask(stream, command)
	if err != nil || len(reply) == 0 || reply[0] == '-' {
		stream.Release()
		return reply, false
	}
	s.useStream(stream)
	s.identity = next
	s.show()
	return reply, true
}

// selectDB handles SELECT. An argument that is no database is for the upstream
// to refuse.
func (s *session) selectDB(cmd redcon.Command) {
	if s.owned(cmd) {
		return
	}
	if len(cmd.Args) == 2 {
		arg := string(cmd.Args[1])
		if db, err := strconv.Atoi(arg); err == nil && db >= 0 && strconv.Itoa(db) == arg {
			next := s.identity
			next.DB = db
			reply, _ := s.become(next, cmd.Raw)
			s.reply(reply)
			return
		}
	}
	s.forward(cmd)
}

// auth handles AUTH: the upstream checks the password, unless the proxy has
// users of its own.
func (s *session) auth(cmd redcon.Command) {
	if s.server.asksForPassword() {
		s.login(cmd)
		return
	}
	if s.owned(cmd) {
		s.lasting = true // as somebody whom only the upstream knows
		return
	}
	next := s.identity
	switch len(cmd.Args) {
	case 2:
		next.User, next.Password = "", string(cmd.Args[1])
	case 3:
		next.User, next.Password = string(cmd.Args[1]), string(cmd.Args[2])
	default:
		s.forward(cmd)
		return
	}
	reply, _ := s.become(next, cmd.Raw)
	s.reply(reply)
}

// hello handles HELLO. What is not well-formed is for the upstream to refuse, on
// a connection of the client's own: it does what comes before the mistake.
func (s *session) hello(cmd redcon.Command) {
	if s.server.asksForPassword() {
		var ok bool
		if cmd, ok = s.loginHello(cmd); !ok {
			return
		}
	}
	if s.owned(cmd) {
		s.noteHello(cmd)
		return
	}
	if len(cmd.Args) > 1 && string(cmd.Args[1]) != "2" && string(cmd.Args[1]) != "3" {
		s.forward(cmd)
		return
	}
	next, name, ok := parseHello(s.identity, cmd.Args)
	if !ok {
		s.stick(cmd)
		s.noteHello(cmd)
		return
	}
	reply, ok := s.become(next, cmd.Raw)
	if ok {
		reply = patchID(reply, s.id)
	}
	s.reply(reply)
	if ok && name != nil {
		s.setName(name)
	}
}

// parseHello returns whom a HELLO of protocol 2 or 3 makes of id, and the name it
// sets, if any.
func parseHello(id backend.Identity, args [][]byte) (next backend.Identity, name []byte, ok bool) {
	if len(args) == 1 {
		return id, nil, true
	}
	id.Protocol = int(args[1][0] - '0')
	for args = args[2:]; len(args) > 0; {
		switch option := strings.ToUpper(string(args[0])); {
		case option == "AUTH" && len(args) >= 3:
			id.User, id.Password = string(args[1]), string(args[2])
			args = args[3:]
		case option == "SETNAME" && len(args) >= 2:
			name = args[1]
			args = args[2:]
		default:
			return id, nil, false
		}
	}
	return id, name, true
}

// patchID puts the session's id in the place of the shared connection's.
func patchID(reply []byte, id int64) []byte {
	field := []byte("$2\r\nid\r\n:")
	at := bytes.Index(reply, field)
	if at < 0 {
		return reply
	}
	at += len(field)
	end := bytes.IndexByte(reply[at:], '\r')
	if end < 0 {
		return reply
	}
	patched := strconv.AppendInt(bytes.Clone(reply[:at]), id, 10)
	return append(patched, reply[at+end:]...)
}

// ownClient are the subcommands of CLIENT that change a connection, those of
// Valkey included. Others that it has for clients it has for all of them.
var ownClient = map[string]bool{
	"TRACKING": true, "CACHING": true, "NO-EVICT": true, "NO-TOUCH": true, "CAPA": true, "IMPORT-SOURCE": true,
}

// client handles CLIENT: what it says about the session's own connection.
func (s *session) client(cmd redcon.Command) {
	cmd = s.server.clients.translate(cmd)
	if s.owned(cmd) {
		s.noteClient(cmd)
		return
	}
	if len(cmd.Args) < 2 || s.stream.NeedsAuth() {
		s.forward(cmd)
		return
	}
	args := cmd.Args[2:]
	switch sub := strings.ToUpper(string(cmd.Args[1])); {
	case sub == "ID" && len(args) == 0:
		s.answer(cmd, redcon.AppendInt(nil, s.id))
	case sub == "INFO" && len(args) == 0:
		s.info(cmd)
	case sub == "LIST":
		s.list(cmd)
	case sub == "KILL":
		s.kill(cmd)
	case sub == "GETNAME" && len(args) == 0:
		s.answer(cmd, s.nameReply())
	case sub == "SETNAME" && len(args) == 1:
		s.askName(cmd)
	case sub == "REPLY" && len(args) == 1:
		s.clientReply(cmd)
	case ownClient[sub]:
		s.stick(cmd)
		s.noteClient(cmd)
	case sub == "PAUSE" || sub == "UNPAUSE":
		s.pause(cmd)
	default:
		s.forward(cmd)
	}
}

// answer gives the client reply to cmd if the upstream lets it ask.
func (s *session) answer(cmd redcon.Command, reply []byte) {
	theirs, err := s.ask(s.stream, cmd.Raw)
	if err != nil {
		return
	}
	if theirs[0] == '-' {
		reply = theirs
	}
	s.reply(reply)
}

func (s *session) nameReply() []byte {
	if len(s.name) > 0 {
		return redcon.AppendBulk(nil, s.name)
	}
	if s.identity.Protocol == 3 {
		return []byte("_\r\n")
	}
	return []byte("$-1\r\n")
}

// askName handles CLIENT SETNAME: it has the upstream check the name.
func (s *session) askName(cmd redcon.Command) {
	reply, err := s.ask(s.stream, cmd.Raw)
	if err != nil {
		return
	}
	s.reply(reply)
	if bytes.Equal(reply, replyOK) {
		s.setName(cmd.Args[2])
	}
}

// setName gives the client a name that the upstream has found to be one, and has
// the shared connection lose it.
func (s *session) setName(name []byte) {
	s.name = bytes.Clone(name)
	s.show()
	s.requests = append(s.requests, backend.Request{
		Bytes: []byte("*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$0\r\n\r\n"), Discard: true, Effect: backend.Reads,
	})
}

// clientReply handles CLIENT REPLY ON|OFF|SKIP.
func (s *session) clientReply(cmd redcon.Command) {
	switch strings.ToUpper(string(cmd.Args[2])) {
	case "ON":
		s.submit()
		s.muted, s.skipping = false, false
		s.reply(replyOK)
	case "OFF":
		s.submit()
		s.muted = true
	case "SKIP":
		s.skip = !s.muted
	default:
		s.forward(cmd)
	}
}

// script handles SCRIPT. After SCRIPT FLUSH the limiter scripts are loaded
// again right behind it, for the commands that follow. SCRIPT DEBUG makes the
// next EVAL of a connection a dialogue.
func (s *session) script(cmd redcon.Command) {
	if len(cmd.Args) > 1 && bytes.EqualFold(cmd.Args[1], []byte("DEBUG")) {
		if s.server.config.Backend.Clustered() {
			s.refuseOnCluster("SCRIPT DEBUG is not supported by cellproxy on a cluster")
		} else {
			s.stickForGood(cmd)
		}
		return
	}
	s.forward(cmd)
	if s.sticky || s.multi || len(cmd.Args) < 2 || !bytes.EqualFold(cmd.Args[1], []byte("FLUSH")) {
		return
	}
	for _, script := range commands.Scripts() {
		var load []byte
		load = redcon.AppendArray(load, 3)
		load = redcon.AppendBulkString(load, "SCRIPT")
		load = redcon.AppendBulkString(load, "LOAD")
		load = redcon.AppendBulkString(load, script.Source)
		s.add(backend.Request{Bytes: load, Discard: true})
	}
}

// debug handles DEBUG. DEBUG PROTOCOL PUSH brings what on a shared connection
// would be nobody's.
func (s *session) debug(cmd redcon.Command) {
	if s.identity.Protocol == 3 && !s.server.config.Backend.Clustered() && len(cmd.Args) == 3 && bytes.EqualFold(cmd.Args[1], []byte("PROTOCOL")) &&
		bytes.EqualFold(cmd.Args[2], []byte("PUSH")) {
		s.loosen(cmd)
		return
	}
	s.forward(cmd)
}

// reset handles RESET: the session is as it was when it began. After CLIENT
// REPLY SKIP it is not answered, after CLIENT REPLY OFF it is.
func (s *session) reset(cmd redcon.Command) {
	if len(cmd.Args) != 1 {
		s.forward(cmd)
		return
	}
	if s.leavePrivate() != nil {
		return
	}
	s.muted, s.skip = false, false
	s.setLoggedIn(!s.server.asksForPassword())
	s.name = nil
	s.identity = s.server.config.Backend.Default()
	s.show()
	s.submit()
	s.useStream(s.server.config.Backend.Lane(s.identity))
	s.reply([]byte("+RESET\r\n"))
}

// end handles QUIT: nothing after it is looked at. A wire's upstream closes,
// and so does the session then.
func (s *session) end(cmd redcon.Command) {
	s.quit = true
	if s.sticky {
		s.forward(cmd)
		return
	}
	s.reply(replyOK)
	s.out.endAfter()
}

// cutBrowser ends a session that turns out to be an HTTP request, as Redis does:
// a web page may have tricked somebody's browser into sending it.
func (s *session) cutBrowser(redcon.Command) {
	s.submit()
	s.quit = true
	s.out.endAfter()
}

// notServed refuses a command that was configured away. On a private connection
// the upstream is made to refuse one in its place, so that the error keeps its
// place and a transaction fails.
func (s *session) notServed(cmd redcon.Command) {
	text := strings.ToUpper(string(cmd.Args[0])) + " is not supported by cellproxy"
	line := []byte("-ERR " + text + "\r\n")
	if !s.isPrivate() && !s.multi {
		s.reply(line)
		return
	}
	s.add(backend.Request{Bytes: encode([][]byte{[]byte(text)}).Raw, Instead: line})
}
