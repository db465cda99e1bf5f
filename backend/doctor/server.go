package doctor

import (
	"context"
	"fmt"
	"net"
)

// version needs scripts that may write after they have asked for the time.
func (e *exam) version(context.Context) Finding {
	return judgeVersion(e.info)
}

func judgeVersion(told info) Finding {
	redis := told["redis_version"]
	if redis == "" {
		return unknown("its version (INFO)")
	}
	name := "Redis " + redis
	if valkey := told["valkey_version"]; valkey != "" {
		name = "Valkey " + valkey
	}
	var major, minor int
	if n, _ := fmt.Sscanf(redis, "%d.%d", &major, &minor); n != 2 {
		return unknown("a version that can be read: " + redis)
	}
	switch {
	case major < 3 || major == 3 && minor < 2:
		return Finding{Level: Failure, Text: name + " has no scripts that ask for the time", Fix: "upgrade to Redis 7 or Valkey 8"}
	case major < 6:
		return Finding{
			Level: Warning, Text: name + " has no HELLO: clients that insist on RESP3 are refused, and there are no users",
			Fix: "upgrade to Redis 7 or Valkey 8",
		}
	}
	return Finding{Text: name}
}

// role must be that of one who takes writes: every limiter writes.
func (e *exam) role(context.Context) Finding {
	role, known := e.info["role"]
	switch {
	case !known:
		return unknown("whether it is a replica (INFO)")
	case role == "master":
		return Finding{Text: "primary, " + e.info["connected_slaves"] + " replicas"}
	}
	primary := net.JoinHostPort(e.info["master_host"], e.info["master_port"])
	text := "replica of " + primary
	if e.info["master_link_status"] == "down" {
		text += ", to which it has no connection"
	}
	if e.info["slave_read_only"] == "0" {
		return Finding{
			Level: Warning, Text: text + "; it takes writes, but loses them at the next full synchronisation",
			Fix: "give --upstream the address of the primary",
		}
	}
	return Finding{Level: Failure, Text: text + ", and takes no writes", Fix: "give --upstream the address of the primary"}
}

// persistence that fails may stop all writes.
func (e *exam) persistence(ctx context.Context) Finding {
	if e.info["loading"] == "" {
		return unknown("about persistence (INFO)")
	}
	if e.info["loading"] == "1" {
		return Finding{Level: Failure, Text: "the upstream is loading its data", Fix: "wait"}
	}
	if e.info["aof_enabled"] == "1" && e.info["aof_last_write_status"] == "err" {
		return Finding{Level: Failure, Text: "the append-only file can't be written, which stops all writes", Fix: "look for a full disk, or missing rights, in the upstream's log"}
	}
	if e.info["rdb_last_bgsave_status"] == "err" {
		stops, known := e.setting(ctx, "stop-writes-on-bgsave-error")
		level, text := Warning, "the last snapshot failed"
		if !known || stops == "yes" {
			level, text = Failure, text+", which stops all writes (MISCONF)"
		}
		return Finding{Level: level, Text: text, Fix: "look for a full disk, or missing rights, in the upstream's log"}
	}
	save, known := e.setting(ctx, "save")
	switch {
	case e.info["aof_enabled"] == "1":
		return Finding{Text: "append-only file"}
	case known && save == "":
		return Finding{Text: "none: after a restart of the upstream all limits begin anew"}
	case known:
		return Finding{Text: "snapshots: after a crash of the upstream limits are as in the last one"}
	}
	return Finding{Text: "no append-only file"}
}

// cluster looks at the health of a Redis Cluster.
func (e *exam) cluster(ctx context.Context) Finding {
	enabled, known := e.info["cluster_enabled"]
	if !known {
		return unknown("whether it is part of a cluster (INFO)")
	}
	if enabled != "1" {
		return Finding{Text: "not part of one"}
	}
	text, err := e.client.ClusterInfo(ctx).Result()
	if err != nil {
		return unknown("how the cluster is (CLUSTER INFO): " + oneLine(err))
	}
	f := judgeCluster(parseInfo(text))
	if f.Level == OK && count(parseInfo(text), "cluster_size") > 1 && !e.clustered {
		f.Level = Failure
		f.Text += ": a node of it is not all of it"
		f.Fix = "give --upstream redis+cluster://" + e.Backend.Addr()
	}
	return f
}

func judgeCluster(told info) Finding {
	assigned, _ := told.number("cluster_slots_assigned")
	failed, _ := told.number("cluster_slots_fail")
	suspect, _ := told.number("cluster_slots_pfail")
	text := fmt.Sprintf("state %s, %d of 16384 slots assigned, %d nodes", told["cluster_state"], assigned, count(told, "cluster_known_nodes"))
	switch {
	case assigned < 16384:
		return Finding{Level: Failure, Text: text, Fix: "assign all slots: redis-cli --cluster fix"}
	case told["cluster_state"] != "ok" || failed > 0:
		return Finding{Level: Failure, Text: fmt.Sprintf("%s, %d of them on failed nodes", text, failed), Fix: "look at CLUSTER NODES: start the nodes that failed, or let replicas take over"}
	case suspect > 0:
		return Finding{Level: Warning, Text: fmt.Sprintf("%s, %d of them on nodes that do not answer some others", text, suspect), Fix: "look at CLUSTER NODES and the network between the nodes"}
	}
	return Finding{Text: text}
}

func count(told info, name string) int64 {
	n, _ := told.number(name)
	return n
}
