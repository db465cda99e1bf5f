package test

import (
	"strings"
	"testing"

	"cellproxy/test/redistest"
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
