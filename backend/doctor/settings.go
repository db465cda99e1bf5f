package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// eviction of limiters' keys lets through again what they had refused. They all
// have a TTL, so every policy but noeviction may evict them.
func (e *exam) eviction(context.Context) Finding {
	return judgeEviction(e.info)
}

// nearlyFull is the percentage of maxmemory from which it is held to be used up.
const nearlyFull = 90

func judgeEviction(told info) Finding {
	most, known := told.number("maxmemory")
	policy := told["maxmemory_policy"]
	if !known || policy == "" {
		return unknown("maxmemory and its policy (INFO)")
	}
	used, _ := told.number("used_memory")
	full := 0
	if most > 0 {
		full = int(float64(used) / float64(most) * 100)
	}
	text := fmt.Sprintf("maxmemory %d MB, %d %% used, policy %s", most>>20, full, policy)
	switch {
	case most == 0:
		return Finding{Text: "no maxmemory, nothing is evicted"}
	case policy != "noeviction":
		return Finding{
			Level: Warning, Text: text + ": limiter keys may be evicted, which forgets what was taken",
			Fix: "CONFIG SET maxmemory-policy noeviction, or a Redis for the limiters alone with memory enough",
		}
	case full >= nearlyFull:
		return Finding{Level: Warning, Text: text + ": soon writes are refused (OOM)", Fix: "raise maxmemory"}
	}
	return Finding{Text: text}
}

// fewConnections are too few for the clients that need one of their own
// upstream: in MULTI, blocked, or subscribed.
const fewConnections = 100

// connections asks how many more the upstream would take.
func (e *exam) connections(ctx context.Context) Finding {
	most, known := e.info.number("maxclients")
	if !known {
		text, _ := e.setting(ctx, "maxclients")
		var err error
		if most, err = strconv.ParseInt(text, 10, 64); err != nil {
			return unknown("how many connections it takes (maxclients)")
		}
	}
	now, _ := e.info.number("connected_clients")
	f := Finding{Text: fmt.Sprintf("%d of maxclients %d", now, most)}
	if most-now < fewConnections {
		f.Level = Warning
		f.Text += ": each client in MULTI, blocked or subscribed needs one of its own"
		f.Fix = "CONFIG SET maxclients 10000"
	}
	return f
}

// idleTimeout asks whether the upstream closes connections that are idle.
func (e *exam) idleTimeout(ctx context.Context) Finding {
	text, known := e.setting(ctx, "timeout")
	if !known {
		return unknown("after what time it closes idle connections (CONFIG GET timeout)")
	}
	if text == "0" {
		return Finding{Text: "idle connections are kept"}
	}
	return Finding{
		Level: Warning, Text: "idle connections are closed after " + text + " s: what is sent at that moment is answered with an error",
		Fix: "CONFIG SET timeout 0",
	}
}

// protection asks who else may come in: who reaches the upstream goes round the
// limits.
func (e *exam) protection(ctx context.Context) Finding {
	protected, known := e.setting(ctx, "protected-mode")
	if !known {
		return unknown("who may connect (CONFIG GET protected-mode)")
	}
	id := e.Backend.Default()
	if id.User != "" || id.Password != "" {
		return Finding{Text: "asks for a password"}
	}
	if protected == "yes" {
		return Finding{Text: "protected mode: without a password only this machine may connect"}
	}
	bound, _ := e.setting(ctx, "bind")
	if loopbackOnly(bound) {
		return Finding{Text: "listens on loopback only"}
	}
	return Finding{
		Level: Warning, Text: "asks nobody for a password, and listens to the network: who reaches it goes round the limits",
		Fix: "set a password (requirepass) and put it into --upstream",
	}
}

// loopbackOnly reports whether all of the addresses that a server is bound to
// are loopback.
func loopbackOnly(bound string) bool {
	words := strings.Fields(bound)
	for _, word := range words {
		word = strings.TrimPrefix(word, "-")
		if !strings.HasPrefix(word, "127.") && word != "::1" {
			return false
		}
	}
	return len(words) > 0
}
