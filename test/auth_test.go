package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// loginScripts are what clients send that have to give a password first. The
// password of the default user is "front"; each ends the connection.
var loginScripts = map[string]string{
	"nothing before":      "PING\r\nGET k\r\nECHO x\r\nMULTI\r\nSUBSCRIBE c\r\nCLIENT GETNAME\r\nSELECT 1\r\n" + quit,
	"wrong password":      "AUTH wrong\r\nAUTH nosuch front\r\nAUTH default wrong\r\nGET k\r\n" + quit,
	"wrong arguments":     "AUTH\r\nAUTH a b c\r\nGET k\r\n" + quit,
	"right password":      "AUTH front\r\nSET k v\r\nGET k\r\nPING\r\n" + quit,
	"user and password":   "AUTH default front\r\nSET k v\r\nGET k\r\n" + quit,
	"hello without":       "HELLO\r\nHELLO 3\r\nHELLO 9\r\nGET k\r\n" + quit,
	"hello with":          "HELLO 3 AUTH default front SETNAME me\r\nCLIENT GETNAME\r\nGET nosuch\r\n" + quit,
	"hello with wrong":    "HELLO 3 AUTH default wrong\r\nGET k\r\n" + quit,
	"reset logs out":      "AUTH front\r\nGET k\r\nRESET\r\nGET k\r\nAUTH front\r\nGET k\r\n" + quit,
	"wrong after right":   "AUTH front\r\nAUTH wrong\r\nGET k\r\n" + quit,
	"private connections": "AUTH front\r\nMULTI\r\nSET k v\r\nEXEC\r\nWATCH k\r\nUNWATCH\r\nRPUSH l x\r\nBLPOP l 0\r\nSUBSCRIBE c\r\nUNSUBSCRIBE c\r\n" + quit,
	"database":            "AUTH front\r\nSELECT 3\r\nSET k v\r\nRESET\r\nAUTH front\r\nGET k\r\nSELECT 3\r\nGET k\r\n" + quit,
	"many arguments":      "*11\r\n",
	"long argument":       "*2\r\n$4\r\nAUTH\r\n$16385\r\n",
	"most arguments":      "*10\r\n$4\r\nMGET\r\n" + strings.Repeat("$1\r\nx\r\n", 9) + quit,
	"longest argument":    "*2\r\n$4\r\nAUTH\r\n$16384\r\n" + strings.Repeat("x", 16384) + "\r\n" + quit,
}

// TestPasswordsAreAskedForAlike compares a Redis that asks for a password
// with a cellproxy that does so, on a Redis that wants another, and with one
// that leaves the asking to Redis.
func TestPasswordsAreAskedForAlike(t *testing.T) {
	front := redistest.Start(t, redistest.Options{Password: "front"})
	back := redistest.Start(t, redistest.Options{Password: "back"})
	open := redistest.Start(t, redistest.Options{})
	withoutPassword := "unix://" + front.Socket()
	for _, side := range []struct {
		name  string
		redis *redistest.Server
		proxy *proxytest.Proxy
	}{
		{"own password", open, proxytest.Start(t, open.URL(), "--requirepass", "front")},
		{"own password and another behind", back, proxytest.Start(t, back.URL(), "--requirepass", "front")},
		{"the upstream's password", front, proxytest.Start(t, withoutPassword)},
	} {
		for name, bytes := range loginScripts {
			t.Run(side.name+": "+name, func(t *testing.T) {
				run := func(redis *redistest.Server, dial func(testing.TB) *wire.Conn) string {
					if err := redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
						t.Fatal(err)
					}
					// Newer versions of Redis have a word more in one text.
					return strings.ReplaceAll(withoutID(untilClosed(t, dial(t), bytes)), "HELLO <proto> AUTH", "HELLO AUTH")
				}
				if got, want := run(side.redis, side.proxy.Dial), run(front, front.Dial); got != want {
					t.Errorf("got %q\nwant %q", got, want)
				}
			})
		}
	}
}

// TestUsersAreReadAgain changes the file of users while cellproxy serves.
func TestUsersAreReadAgain(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	users := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("alice one\n")
	proxy := proxytest.Start(t, redis.URL(), "--users-file", users)
	before := proxy.Dial(t)
	auth := func(conn *wire.Conn, user, password, want string) {
		t.Helper()
		if got := conn.Do("AUTH", user, password); !strings.HasPrefix(got, want) {
			t.Errorf("AUTH %s %s = %q, want %q", user, password, got, want)
		}
	}
	auth(before, "alice", "one", "+OK")
	for i, text := range []string{"alice two\nbob three\n", "nonsense\n"} {
		write(text)
		if i == 0 {
			syscall.Kill(proxy.Pid(), syscall.SIGHUP)
		} else if out, err := proxytest.Command(t, "reload", "--pid-file", proxy.PidFile()).CombinedOutput(); err != nil {
			t.Errorf("reload: %v, %s", err, out)
		}
		await(t, "the file to be read", func() bool {
			return strings.Count(proxy.Output(), "reloaded") == i+1
		})
		auth(proxy.Dial(t), "alice", "one", "-WRONGPASS")
		auth(proxy.Dial(t), "alice", "two", "+OK")
		auth(proxy.Dial(t), "bob", "three", "+OK")
		if got := before.Do("PING"); got != "+PONG\r\n" {
			t.Errorf("one who was in: PING = %q", got)
		}
	}
}

// TestReloadWithoutAProcess sees that there is one clear line about it.
func TestReloadWithoutAProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(file, []byte("none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"reload"}, "cellproxy: --pid-file is missing: the file that serve was given\n", 2},
		{[]string{"reload", "--pid-file", file}, "cellproxy: no process id in " + file + "\n", 1},
		{[]string{"reload", "--pid-file", file + "x"}, "cellproxy: cannot read --pid-file: open " + file + "x: no such file or directory\n", 1},
	} {
		cmd := proxytest.Command(t, test.args...)
		got, err := cmd.CombinedOutput()
		if string(got) != test.want || err == nil || cmd.ProcessState.ExitCode() != test.code {
			t.Errorf("%q: got %q, %v, want %q and code %d", test.args, got, err, test.want, test.code)
		}
	}
}
