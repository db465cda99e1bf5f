package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// The commands random tests are made of. Words that begin with $ are replaced
// by random ones of their kind; the same few keys are used for every type, so
// that wrong types are common.
//
// What is missing is left out because Redis itself answers it differently each
// time: SPOP, SRANDMEMBER, HRANDFIELD, ZRANDMEMBER and RANDOMKEY are random;
// KEYS, SCAN and DBSIZE depend on when the server shrinks its tables; TIME,
// INFO, LATENCY, SLOWLOG, MEMORY and OBJECT IDLETIME or FREQ tell of the
// process; CLIENT ID, INFO and LIST and ACL LOG tell of the connection;
// blocking commands wait for a clock that stands still. COMMAND is not alike
// on purpose. A range by lex narrower than everything depends, where scores
// differ, on the random levels of a skiplist. CLIENT REPLY, blocking, WAIT and messages to subscribers have tables
// of their own. No command here has other than one reply.

var genericCommands = strings.Split(`DEL $key $key
EXISTS $key $key $key
TYPE $key
TYPE $key
EXPIRE $key $int
PEXPIRE $key $int
PEXPIRE $key 20 NX
EXPIRE $key 100 GT
EXPIREAT $key $int
PERSIST $key
TTL $key
PTTL $key
PEXPIRETIME $key
RENAME $key $key
RENAMENX $key $key
COPY $key $key
COPY $key $key DB 1 REPLACE
UNLINK $key
TOUCH $key $key
MOVE $key 1
DUMP $key
RESTORE $key 0 $value
RESTORE $key 0 \x00\xc0\x05\n\x00\x1c\xf0\xc3\x8b\xa7\x9a\x0e\x85 REPLACE
OBJECT ENCODING $key
OBJECT REFCOUNT $key
OBJECT HELP
SORT $key
SORT $key ALPHA
SORT $key BY nosort GET # LIMIT 0 3
SORT $key STORE $key
SORT_RO $key DESC ALPHA
NOSUCHCOMMAND $key $value
FLUSHDB $value`, "\n")

var stringCommands = strings.Split(`SET $key $value
SET $key $int
SET $key $value NX
SET $key $value XX GET
SET $key $value PX $int
SET $key $value EX 10 KEEPTTL
SET $key $big
GET $key
GET $key
GETSET $key $value
GETDEL $key
GETEX $key PX 15
GETEX $key PERSIST
SETNX $key $value
SETEX $key $int $value
PSETEX $key 30 $value
MSET $key $value $key $int
MSETNX $key $value $key $value
MGET $key $key $key
APPEND $key $value
STRLEN $key
INCR $key
DECR $key
INCRBY $key $int
DECRBY $key $int
INCRBYFLOAT $key $float
SETRANGE $key 3 $value
GETRANGE $key $index $index
SUBSTR $key 0 -1
LCS $key $key IDX
SETBIT $key 77 1
GETBIT $key 77
BITCOUNT $key
BITCOUNT $key 1 20 BIT
BITPOS $key 1
BITOP AND $key $key $key
BITOP NOT $key $key
BITFIELD $key SET u8 0 $int GET i5 3 INCRBY u2 100 1 OVERFLOW FAIL
BITFIELD_RO $key GET u8 1
PFADD $key $member $member
PFCOUNT $key $key
PFMERGE $key $key`, "\n")

var listCommands = strings.Split(`LPUSH $key $value $value
RPUSH $key $value $int $value
LPUSHX $key $value
RPUSHX $key $value
LPOP $key
RPOP $key 2
LLEN $key
LRANGE $key $index $index
LINDEX $key $index
LSET $key $index $value
LINSERT $key BEFORE $member $value
LREM $key 0 $member
LTRIM $key 0 5
LPOS $key $member RANK 1 COUNT 0
LMOVE $key $key LEFT RIGHT
RPOPLPUSH $key $key
LMPOP 2 $key $key LEFT COUNT 2`, "\n")

var setCommands = strings.Split(`SADD $key $member $member $member
SADD $key $int $int
SREM $key $member
SISMEMBER $key $member
SMISMEMBER $key $member $member
SCARD $key
SMEMBERS $key
SMEMBERS $key
SMOVE $key $key $member
SINTER $key $key
SINTERCARD 2 $key $key LIMIT 1
SINTERSTORE $key $key $key
SUNION $key $key
SUNIONSTORE $key $key $key
SDIFF $key $key
SDIFFSTORE $key $key $key
SSCAN $key 0`, "\n")

var hashCommands = strings.Split(`HSET $key $member $value $member $int
HSETNX $key $member $value
HGET $key $member
HMGET $key $member $member nosuch
HGETALL $key
HGETALL $key
HKEYS $key
HVALS $key
HLEN $key
HSTRLEN $key $member
HEXISTS $key $member
HDEL $key $member
HINCRBY $key $member $int
HINCRBYFLOAT $key $member $float
HSCAN $key 0 MATCH m*
HMSET $key $member $value`, "\n")

var sortedSetCommands = strings.Split(`ZADD $key $float $member $int $member
ZADD $key NX CH $float $member
ZADD $key GT INCR $float $member
ZSCORE $key $member
ZMSCORE $key $member $member
ZINCRBY $key $float $member
ZCARD $key
ZCOUNT $key -inf (5
ZRANGE $key 0 -1
ZRANGE $key 0 -1 WITHSCORES
ZRANGE $key -inf +inf BYSCORE LIMIT 0 2 WITHSCORES
ZRANGEBYSCORE $key ($int inf
ZREVRANGE $key 0 2 WITHSCORES
ZRANGEBYLEX $key - +
ZLEXCOUNT $key - +
ZRANK $key $member
ZREVRANK $key $member
ZREM $key $member
ZPOPMIN $key
ZPOPMAX $key 2
ZREMRANGEBYRANK $key 0 0
ZREMRANGEBYSCORE $key 0 1
ZUNION 2 $key $key WITHSCORES
ZUNIONSTORE $key 2 $key $key WEIGHTS 2 $float AGGREGATE MAX
ZINTER 2 $key $key WITHSCORES
ZINTERCARD 2 $key $key
ZDIFF 2 $key $key WITHSCORES
ZRANGESTORE $key $key 0 3
ZMPOP 2 $key $key MIN COUNT 2
ZSCAN $key 0
GEOADD $key 13.361389 38.115556 $member 15.087269 37.502669 $member
GEOPOS $key $member
GEODIST $key $member $member km
GEOHASH $key $member
GEOSEARCH $key FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH
GEORADIUS $key 15 37 200 km`, "\n")

var streamCommands = strings.Split(`XADD $key * $member $value
XADD $key MAXLEN 5 * $member $value $member $int
XADD $key $int-1 $member $value
XADD $key NOMKSTREAM * $member $value
XLEN $key
XRANGE $key - +
XREVRANGE $key + - COUNT 2
XREAD COUNT 2 STREAMS $key $key 0 0
XREAD STREAMS $key $
XDEL $key 0-1
XTRIM $key MAXLEN 3
XSETID $key 9999999999999-0
XGROUP CREATE $key group 0 MKSTREAM
XGROUP CREATECONSUMER $key group $member
XGROUP DESTROY $key group
XREADGROUP GROUP group alice COUNT 1 STREAMS $key >
XACK $key group 0-1
XPENDING $key group
XPENDING $key group - + 10
XAUTOCLAIM $key group bob 0 0 COUNT 2
XINFO STREAM $key
XINFO GROUPS $key
XINFO CONSUMERS $key group`, "\n")

var scriptCommands = strings.Split(`EVAL return{1,2.9,'a',false,{ok='fine'},{KEYS[1],ARGV[1]}} 1 $key $value
EVAL return{err='MY~custom~error'} 0
EVAL return~redis.call('GET',KEYS[1]) 1 $key
EVAL return~redis.pcall('INCR',KEYS[1]) 1 $key
EVAL redis.setresp(3);return~redis.call('HGETALL',KEYS[1]) 1 $key
EVAL redis.setresp(3);return{map={a=1},{double=3.5},{set={x=true}},true,{big_number='123'}} 0
EVAL return{verbatim_string={format='txt',string='hi'}} 0
EVAL return~redis.call('TIME') 0
EVAL nonsense 0
EVAL error('boom') 0
EVAL_RO return~redis.call('SET','x','y') 0
EVALSHA 0123456789012345678901234567890123456789 0
EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
SCRIPT LOAD return~1
SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db abc
SCRIPT FLUSH
SCRIPT NOSUCH
FUNCTION LOAD #!lua~name=lib\nredis.register_function('twice',function(k,a)return~a[1]*2~end)
FCALL twice 0 $int
FUNCTION LIST
FUNCTION DELETE lib`, "\n")

var serverCommands = strings.Split(`PING
PING $value
ECHO $value
CONFIG GET maxmemory*
CONFIG SET maxmemory-samples 5
CONFIG GET nosuch
CONFIG NOSUCH
LOLWUT VERSION 1
DEBUG SET-ACTIVE-EXPIRE 0
DEBUG NOSUCH
PUBLISH channel $value
PUBSUB NUMPAT
ACL WHOAMI
ACL CAT nosuch
ACL GETUSER default
CLIENT NOSUCH
CLIENT KILL ID 0
CLIENT UNPAUSE
LASTSAVE
COMMAND GETKEYS MSET a b c d
ROLE
READONLY
SWAPDB 1 2
HELLO $int
AUTH $value
AUTH nosuch $value
QUITE`, "\n")

// sessionCommands change what the connection is.
var sessionCommands = strings.Split(`MULTI
MULTI
EXEC
EXEC
EXEC
DISCARD
WATCH $key $key
UNWATCH
SELECT $index
SELECT 0
SELECT 1
SELECT 99
HELLO 2
HELLO 3
HELLO 3 SETNAME $member
HELLO 4
CLIENT SETNAME $member
CLIENT SETNAME a~b
CLIENT GETNAME
CLIENT GETNAME
CLIENT NO-EVICT on
RESET
SUBSCRIBE $member
PSUBSCRIBE $member
SSUBSCRIBE $member
UNSUBSCRIBE $member
PUNSUBSCRIBE $member
SUNSUBSCRIBE $member`, "\n")

// limiterCommands are what cellproxy adds.
var limiterCommands = strings.Split(`CL.THROTTLE $key 15 30 60
CL.THROTTLE $key $int $int $int
CL.THROTTLE $key 15 30 60 $int
CL.THROTTLE $key $float $value $index`, "\n")

// statelessCommands leave the connection as it is, and Redis knows them.
var statelessCommands = slices.Concat(genericCommands, stringCommands, listCommands, setCommands, hashCommands,
	sortedSetCommands, streamCommands, scriptCommands, serverCommands)

var allCommands = slices.Concat(statelessCommands, sessionCommands, limiterCommands)

// fill returns the arguments of a template. A tilde stands for a blank.
func fill(rng *rand.Rand, template string) []string {
	args := strings.Fields(template)
	for i, arg := range args {
		if strings.HasPrefix(arg, "$") && len(arg) > 1 {
			name := strings.TrimRight(arg[1:], "-0123456789")
			args[i] = word(rng, "$"+name) + arg[1+len(name):]
			continue
		}
		if unquoted, err := strconv.Unquote(`"` + arg + `"`); err == nil {
			arg = unquoted
		}
		args[i] = strings.ReplaceAll(arg, "~", " ")
	}
	return args
}

func word(rng *rand.Rand, kind string) string {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	switch kind {
	case "$key":
		return pick("k1", "k2", "k3", "k4", "k5", "k6", "{t}k7", "k\x00\xff8", "nosuch")
	case "$value":
		return pick("", "v", "hello world", "1", "line\r\nbreak", "\x00\x01\xfe\xff", "+OK\r\n", strings.Repeat("v", 100))
	case "$big":
		return strings.Repeat(pick("x", "yz", "\r\n"), 1+rng.IntN(40000))
	case "$int":
		return pick("0", "1", "2", "-1", "7", "42", "100000", "9223372036854775807", "-9223372036854775808", strconv.Itoa(rng.IntN(2000)))
	case "$float":
		return pick("1.5", "-2.25", "3", "1e10", "inf", "-inf", "0.1", "nan", "x", fmt.Sprint(rng.NormFloat64()))
	case "$index":
		return pick("0", "1", "2", "-1", "-3", "100")
	case "$member":
		return pick("m1", "m2", "m3", "m4", "v", "")
	}
	panic("no words of kind " + kind)
}
