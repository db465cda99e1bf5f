package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// closes is what to do about an upstream that closes the connection, and so may
// take with it what it says about that.
const closes = "the upstream closes the connection: if it wants TLS, take rediss:// for redis://, and if it wants to be shown a certificate, ?tls_cert=file&tls_key=file"

// hints are what to do about an error, by a part of its text.
var hints = []struct{ part, fix string }{
	{"NOAUTH", "put user and password into --upstream: redis://user:password@host:port"},
	{"WRONGPASS", "check user and password in --upstream"},
	{"invalid password", "check the password in --upstream"},
	{"without any password configured", "leave the password out of --upstream: the upstream has none"},
	{"DB index is out of range", "check the database, the number behind the / in --upstream"},
	{"protected mode", "set a password in the upstream (requirepass) and put it into --upstream, or run cellproxy on the same machine"},
	{"max number of clients", "raise maxclients in the upstream, or find out who holds the connections: CLIENT LIST"},
	{"LOADING", "wait: the upstream is loading its data"},
	{"connection refused", "check host and port, and that the upstream runs and listens there"},
	{"no such file", "check the path of the socket, and that the upstream listens on it (unixsocket)"},
	{"permission denied", "let cellproxy's user write to the socket (unixsocketperm)"},
	{"no such host", "check the host's name, and the name server"},
	{"does not look like a TLS handshake", "the upstream speaks no TLS there: take redis:// for rediss://, or the TLS port"},
	{"certificate required", "the upstream wants to be shown a certificate: name it in the URL, ?tls_cert=file&tls_key=file"},
	{"unknown certificate authority", "the upstream does not know who signed the certificate that it is shown (tls_cert)"},
	{"signed by unknown authority", "name the authority of the upstream's certificate in the URL: ?tls_ca=file"},
	{"x509", "the upstream's certificate must be valid, and for this host: otherwise name that in the URL, ?tls_server_name=host"},
	{"EOF", closes},
	{"connection reset", closes},
	{"broken pipe", closes},
	{"timeout", "check host, port and firewalls, and rediss:// (TLS) or redis://; if the upstream is just slow, raise --dial-timeout"},
	{"deadline exceeded", "check host, port and firewalls, and rediss:// (TLS) or redis://; if the upstream is just slow, raise --dial-timeout"},
	{"READONLY", "give --upstream the address of the primary"},
	{"MISCONF", "see persistence"},
	{"OOM", "raise maxmemory, or delete what is not needed"},
	{"CLUSTERDOWN", "see cluster"},
}

// hint returns what to do about an error, or nothing.
func hint(err error) string {
	for _, h := range hints {
		if strings.Contains(err.Error(), h.part) {
			return h.fix
		}
	}
	return ""
}

// connect connects as serve does, and has the upstream answer. An upstream that
// answers with an error may still say more.
func (e *exam) connect(ctx context.Context) Finding {
	began := time.Now()
	client, err := e.Backend.Client(ctx)
	if err != nil {
		return e.unusable(err)
	}
	err = client.Ping(ctx).Err()
	if answered := new(redis.Error); err != nil && (!errors.As(err, answered) || strings.HasPrefix(err.Error(), "NOAUTH")) {
		client.Close()
		return e.unusable(err)
	}
	e.client = client
	return Finding{Text: fmt.Sprintf("%s, as user %s, in %v", e.Backend.Addr(), e.user(), rounded(time.Since(began)))}
}

func (e *exam) unusable(err error) Finding {
	return Finding{Level: Failure, Text: fmt.Sprintf("cannot use %s: %s", e.Backend.Addr(), oneLine(err)), Fix: hint(err)}
}

// refusesCommand reports whether an error says that this user may not run a
// command, or that there is none.
func refusesCommand(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "ERR unknown command") ||
		strings.Contains(text, "can't run this command")
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// rounded is a duration to read: three digits or so.
func rounded(d time.Duration) time.Duration {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond)
	case d < time.Second:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}
