package backend

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"cellproxy/commands"
)

// Policy is how limiter commands are answered while the upstream can't.
type Policy string

// The policies. The replies have the shape they always have.
const (
	// PolicyError answers with the error.
	PolicyError Policy = "error"
	// PolicyAllow answers as if nobody had taken anything yet.
	PolicyAllow Policy = "allow"
	// PolicyDeny refuses and says to come back in a second.
	PolicyDeny Policy = "deny"
	// PolicyLocal keeps the limits in the process, each cellproxy for itself.
	PolicyLocal Policy = "local"
)

// Policies lists them.
var Policies = []Policy{PolicyError, PolicyAllow, PolicyDeny, PolicyLocal}

// ParsePolicy returns the policy of a name.
func ParsePolicy(name string) (Policy, error) {
	names := make([]string, len(Policies))
	for i, policy := range Policies {
		if string(policy) == name {
			return policy, nil
		}
		names[i] = string(policy)
	}
	return "", fmt.Errorf("%q is none of %s", name, strings.Join(names, ", "))
}

// denyWait is how long those denied are told to wait: by then the upstream may
// well be back.
const denyWait = time.Second

// fallback answers limiter commands in the place of the upstream.
type fallback struct {
	policy   atomic.Pointer[Policy]
	local    *localLimits // of PolicyLocal
	answered atomic.Int64
}

func newFallback(policy Policy) *fallback {
	f := &fallback{local: newLocalLimits(maxLocalBytes)}
	f.policy.Store(&policy)
	return f
}

// answer returns the reply to a limiter command, as the client sent it to a
// database, or nil if the error is to be passed on.
func (f *fallback) answer(db int, original []byte) []byte {
	policy := *f.policy.Load()
	if policy == PolicyError {
		return nil
	}
	var call commands.Call
	if err := commands.ParseRaw(original, &call); err != nil {
		return nil
	}
	reply, err := f.decide(policy, db, &call, time.Now().UnixMicro())
	f.answered.Add(1)
	if err != nil {
		return []byte("-" + err.Error() + "\r\n")
	}
	return commands.AppendReply(nil, reply)
}

func (f *fallback) decide(policy Policy, db int, call *commands.Call, nowMicros int64) ([]int64, error) {
	switch policy {
	case PolicyAllow:
		_, reply, err := call.Model(commands.State{}, nowMicros)
		return reply, err
	case PolicyDeny:
		return call.Denied(nowMicros, denyWait)
	default:
		return f.local.run(db, call, nowMicros)
	}
}

// forget drops what was kept while the upstream was away.
func (f *fallback) forget() {
	f.local.clear()
}

// disabled begins the errors of an upstream that is there but can't run any
// limiter for now. They say that the command was not run.
var disabled = [][]byte{
	[]byte("-LOADING "), []byte("-READONLY "), []byte("-OOM "), []byte("-MASTERDOWN "),
	[]byte("-MISCONF "), []byte("-NOREPLICAS "), []byte("-CLUSTERDOWN "), []byte("-BUSY "),
}

func isDisabled(reply []byte) bool {
	for _, prefix := range disabled {
		if bytes.HasPrefix(reply, prefix) {
			return true
		}
	}
	return false
}
