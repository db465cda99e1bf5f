package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ownKey is a key that nobody uses and, if the upstream is a node of a cluster,
// that is there.
func (e *exam) ownKey(ctx context.Context) string {
	for range 1000 {
		key := e.KeyPrefix + rand.Text()
		if err := e.client.Exists(ctx, key).Err(); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
			return key
		}
	}
	return e.KeyPrefix + rand.Text() // the node has no keys
}

// trial is a command that the limiters need, and the rule that permits it.
type trial struct {
	rule string
	args []any
}

const trialScript, trialSHA = "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"

// trials are the commands of the greeting and the limiters. What a script calls
// the user must be permitted too.
func (e *exam) trials() []trial {
	return []trial{
		{"+script|load", []any{"SCRIPT", "LOAD", trialScript}},
		{"+evalsha", []any{"EVALSHA", trialSHA, 0}},
		{"+eval", []any{"EVAL", trialScript, 0}},
		{"+time", []any{"TIME"}},
		{"+get", []any{"GET", e.key}},
		{"+set", []any{"SET", e.key, "", "PX", 10_000, "NX"}},
		{"+del", []any{"DEL", e.key}},
		{"+ping", []any{"PING"}},
	}
}

// permissions tries what this user needs.
func (e *exam) permissions(ctx context.Context) Finding {
	var missing []string
	keyRefused := false
	for _, t := range e.trials() {
		err := e.client.Do(ctx, t.args...).Err()
		switch {
		case err == nil || err == redis.Nil:
		case refusesKey(err):
			keyRefused = true
		case refusesCommand(err):
			missing = append(missing, t.rule)
		}
	}
	f := Finding{Text: "may do what the limiters do"}
	rules := strings.Join(missing, " ")
	switch {
	case len(missing) > 0:
		f = Finding{Level: Failure, Text: fmt.Sprintf("user %s lacks %s", e.user(), rules), Fix: "ACL SETUSER " + e.user() + " " + rules}
	case keyRefused:
		f = Finding{Level: Failure, Text: fmt.Sprintf("user %s may not use keys like %s*", e.user(), e.KeyPrefix), Fix: "give --key-prefix one of those that it may use"}
	}
	return f
}

func (e *exam) user() string {
	if user := e.Backend.Default().User; user != "" {
		return user
	}
	return "default"
}

// refusesKey reports whether an error is about a key that this user may not use.
func refusesKey(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") && strings.Contains(text, "key")
}
