package backend

import (
	"context"
	"net"
	"time"

	"cellproxy/backend/cluster"
	"cellproxy/commands"
)

// noScript begins the reply to an EVALSHA whose script the upstream does not
// have (any more).
var noScript = []byte("-NOSCRIPT")

// keptLimiter is the largest buffer kept for the next limiter command.
const keptLimiter = 4 << 10

// repairer runs limiter commands that the upstream answered with NOSCRIPT, as
// EVAL, on a connection of its own. EVAL also brings the script back, so the
// commands after it succeed again. It belongs to the reader of one link, which
// waits meanwhile: replies stay in order.
type repairer struct {
	dial    func(context.Context) (net.Conn, error)
	timeout time.Duration
	conn    *callConn
}

// run returns the reply to a limiter command whose EVALSHA was refused, alone or
// in a batch. With an error comes the reply that says so.
func (r *repairer) run(limiter []byte, batch bool) (reply []byte, err error) {
	var call commands.Call
	if err := commands.ParseRaw(limiter, &call); err != nil {
		return UnavailableReply(err), err
	}
	if r.conn == nil {
		ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
		defer cancel()
		conn, err := r.dial(ctx)
		if err != nil {
			return UnavailableReply(err), err
		}
		r.conn = newCallConn(conn)
	}
	deadline := time.Now().Add(r.timeout)
	if batch {
		_, err = r.conn.call(cluster.AppendCommand(nil, "SCRIPT", "LOAD", call.Command().Script.Batch.Source), deadline)
	}
	if err == nil {
		reply, err = r.conn.call(call.AppendEval(nil), deadline)
	}
	if err != nil {
		r.close()
		return LostReply(err), err
	}
	return reply, nil
}

func (r *repairer) close() {
	if r.conn != nil {
		r.conn.conn.Close()
		r.conn = nil
	}
}
