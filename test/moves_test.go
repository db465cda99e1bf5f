package test

import (
	"fmt"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
	"cellproxy/test/wire"
)

// TestMovesWithinAPipeline has a session change between shared and private
// connections to the upstream within pipelines of growing length, so that
// replies are on their way in all states when it does. The values look like
// replies.
func TestMovesWithinAPipeline(t *testing.T) {
	p := newPair(t, redistest.Options{})
	for _, turn := range []struct{ name, commands string }{
		{"wire and reset", "CLIENT NO-EVICT on | $gets | RESET | ECHO end"},
		{"subscriber and reset", "HELLO 3 | SUBSCRIBE c | $gets | UNSUBSCRIBE c | RESET | ECHO end"},
		{"transaction, then wire", "MULTI | $gets | EXEC | CLIENT NO-EVICT on | GET k | RESET | ECHO end"},
		{"blocking, then wire", "RPUSH list x | BLPOP list 0 | CLIENT NO-EVICT on | $gets | RESET | ECHO end"},
		{"blocking and shared", "RPUSH list x | BLPOP list 0 | $gets | RPUSH list y | BLPOP list 0 | GET k | ECHO end"},
		{"transaction and reset", "SELECT 1 | MULTI | $gets | RESET | GET k | ECHO end"},
		{"watching, then wire", "WATCH k | $gets | UNWATCH | GET k | SUBSCRIBE c | UNSUBSCRIBE c | RESET | ECHO end"},
		{"databases", "SELECT 1 | $gets | SELECT 0 | GET k | SELECT 1 | MULTI | GET k | EXEC | SELECT 0 | ECHO end"},
		{"protocols", "HELLO 3 | $gets | HELLO 2 | GET k | HELLO 3 | MULTI | GET nosuch | EXEC | RESET | ECHO end"},
		{"muted", "CLIENT REPLY OFF | $gets | CLIENT NO-EVICT on | CLIENT REPLY ON | RESET | ECHO end"},
	} {
		t.Run(turn.name, func(t *testing.T) {
			for _, value := range []string{"v", strings.Repeat("x", 2000) + "+RESET", "+OK\r\n+RESET"} {
				p.reset(t, redistest.Options{})
				p.admin.Do("SET", "k", value)
				direct, proxied := p.redis.Dial(t), p.proxy.Dial(t)
				for n := 1; n <= 50; n++ {
					gets := strings.Repeat("GET k | ", n-1) + "GET k"
					var commands [][]string
					for command := range strings.SplitSeq(strings.Replace(turn.commands, "$gets", gets, 1), " | ") {
						commands = append(commands, strings.Fields(command))
					}
					direct.Send(commands...)
					var replies []string
					for reply := ""; reply != bulk("end"); {
						reply = withoutID(direct.Reply())
						replies = append(replies, reply)
					}
					proxied.Send(commands...)
					for i, want := range replies {
						if got := withoutID(proxied.Reply()); got != want {
							t.Fatalf("%d gets of %.10q, reply %d: got %.100q, want %.100q", n, value, i, got, want)
						}
					}
				}
			}
		})
	}
}

// TestSessionsStayApart has many clients go to private connections and back
// all the time, among others that do not. What one of them does to its
// connection must not be done to another's.
func TestSessionsStayApart(t *testing.T) {
	const clients, rounds, turns = 12, 25, 20
	redis := redistest.Start(t, redistest.Options{})
	proxy := proxytest.Start(t, redis.URL())
	errs := make(chan error)
	for i := range clients {
		conn := proxy.Dial(t)
		turn := movingTurn(fmt.Sprint("client", i))
		if i%3 == 0 {
			turn = turn[:2]
		}
		go func() { errs <- takeTurns(conn, turn, rounds, turns) }()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// movingTurn returns commands of all kinds of session and their replies, with
// a name that is in all that they touch.
func movingTurn(name string) []exchange {
	return []exchange{
		{[]string{"SET", name, "0"}, "+OK\r\n"},
		{[]string{"ECHO", name}, bulk(name)},
		{[]string{"MULTI"}, "+OK\r\n"},
		{[]string{"INCR", name}, "+QUEUED\r\n"},
		{[]string{"EXEC"}, "*1\r\n:1\r\n"},
		{[]string{"MULTI"}, "+OK\r\n"},
		{[]string{"INCR", name}, "+QUEUED\r\n"},
		{[]string{"EXEC"}, "*1\r\n:2\r\n"},
		{[]string{"RPUSH", name + "list", name}, ":1\r\n"},
		{[]string{"BLPOP", name + "list", "0"}, "*2\r\n" + bulk(name+"list") + bulk(name)},
		{[]string{"WATCH", name}, "+OK\r\n"},
		{[]string{"MULTI"}, "+OK\r\n"},
		{[]string{"GET", name}, "+QUEUED\r\n"},
		{[]string{"EXEC"}, "*1\r\n" + bulk("2")},
		{[]string{"INCR", name}, ":3\r\n"},
		{[]string{"SELECT", "1"}, "+OK\r\n"},
		{[]string{"GET", name}, "$-1\r\n"},
		{[]string{"RPUSH", name + "list", name}, ":1\r\n"},
		{[]string{"BLPOP", name + "list", "0"}, "*2\r\n" + bulk(name+"list") + bulk(name)},
		{[]string{"SELECT", "0"}, "+OK\r\n"},
		{[]string{"CLIENT", "NO-EVICT", "on"}, "+OK\r\n"},
		{[]string{"GET", name}, bulk("3")},
		{[]string{"RESET"}, "+RESET\r\n"},
	}
}

// takeTurns sends turns in pipelines, one for each round, and checks the
// replies.
func takeTurns(conn *wire.Conn, turn []exchange, rounds, turns int) error {
	var commands [][]string
	for range turns {
		for _, x := range turn {
			commands = append(commands, x.command)
		}
	}
	for range rounds {
		if _, err := conn.Write(wire.Encode(commands...)); err != nil {
			return err
		}
		for range turns {
			for _, x := range turn {
				if got, err := conn.ReadReply(); err != nil || got != x.want {
					return fmt.Errorf("%q = %q, %v, want %q", x.command, got, err, x.want)
				}
			}
		}
	}
	return nil
}
