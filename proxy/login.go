package proxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/tidwall/redcon"
)

// Users are those whom the proxy itself lets in, by the SHA-256 of their
// passwords. None: whoever connects is let in as far as the upstream allows,
// and AUTH is for the upstream to check.
type Users map[string][sha256.Size]byte

// Redis's own words.
const (
	textNoAuth      = "-NOAUTH Authentication required.\r\n"
	textWrongPass   = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	textNoAuthHello = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n"
)

const (
	textNoProto     = "-NOPROTO unsupported protocol version\r\n"
	textNotProtocol = "-ERR Protocol version is not an integer or out of range\r\n"
)

// check reports whether the password is the user's. It takes as long for a
// user there is not.
func (u Users) check(user, password []byte) bool {
	want, known := u[string(user)]
	got := sha256.Sum256(password)
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && known
}

// admitted reports whether the session may run a command. Before it has
// authenticated, only what that takes.
func (s *session) admitted(name []byte) bool {
	if s.loggedIn {
		return true
	}
	switch strings.ToUpper(string(name)) {
	case "AUTH", "HELLO", "QUIT", "RESET":
		return true
	}
	return false
}

// setLoggedIn says whether the client has given the proxy's own password, or
// none is asked for.
func (s *session) setLoggedIn(in bool) {
	s.loggedIn = in
	s.tellGuard()
}

// tellGuard has the guard allow more to those whom proxy and upstream know.
func (s *session) tellGuard() {
	s.conn.guard.authenticated = s.loggedIn && !s.stream.NeedsAuth()
}

// login handles AUTH where the proxy asks for a password of its own.
func (s *session) login(cmd redcon.Command) {
	user, password := []byte("default"), []byte(nil)
	switch len(cmd.Args) {
	case 2:
		password = cmd.Args[1]
	case 3:
		user, password = cmd.Args[1], cmd.Args[2]
	case 1:
		s.reply([]byte("-ERR wrong number of arguments for 'auth' command\r\n"))
		return
	default:
		s.reply([]byte("-ERR syntax error\r\n"))
		return
	}
	if !s.server.settings.Load().Users.check(user, password) {
		s.server.counters.wrongPasswords.Add(1)
		s.reply([]byte(textWrongPass))
		return
	}
	s.setLoggedIn(true)
	s.reply(replyOK)
}

// loginHello takes the AUTH out of a HELLO where the proxy asks for a password
// of its own. It reports false when it has answered the command.
func (s *session) loginHello(cmd redcon.Command) (redcon.Command, bool) {
	if refusal := badProtocol(cmd); refusal != "" {
		s.reply([]byte(refusal))
		return cmd, false
	}
	rest := make([][]byte, 0, len(cmd.Args))
	for i := 0; i < len(cmd.Args); i++ {
		if i < 2 || !bytes.EqualFold(cmd.Args[i], []byte("AUTH")) || i+2 >= len(cmd.Args) {
			rest = append(rest, cmd.Args[i])
			continue
		}
		if !s.server.settings.Load().Users.check(cmd.Args[i+1], cmd.Args[i+2]) {
			s.server.counters.wrongPasswords.Add(1)
			s.reply([]byte(textWrongPass))
			return cmd, false
		}
		s.setLoggedIn(true)
		i += 2
	}
	if !s.loggedIn {
		s.reply([]byte(textNoAuthHello))
		return cmd, false
	}
	return encode(rest), true
}

// badProtocol is the reply to a HELLO that asks for a protocol there is not.
func badProtocol(cmd redcon.Command) string {
	if len(cmd.Args) < 2 {
		return ""
	}
	switch n, ok := parseInteger(cmd.Args[1]); {
	case !ok:
		return textNotProtocol
	case n < 2 || n > 3:
		return textNoProto
	}
	return ""
}

// encode makes a command of its arguments.
func encode(args [][]byte) redcon.Command {
	raw := redcon.AppendArray(nil, len(args))
	for _, arg := range args {
		raw = redcon.AppendBulk(raw, arg)
	}
	return redcon.Command{Raw: raw, Args: args}
}

// encodeWords is encode for words of the proxy's own.
func encodeWords(words ...string) redcon.Command {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	return encode(args)
}
