"""What a redis-py client does: python3 redis_py.py host port"""

import sys
import threading

import redis

HOST, PORT = sys.argv[1], int(sys.argv[2])


def connect(**options):
    return redis.Redis(host=HOST, port=PORT, **options)


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def raises(kind, call, *args):
    try:
        got = call(*args)
    except kind as err:
        return str(err)
    raise AssertionError(f"got {got!r}, want {kind.__name__}")


def commands():
    r = connect(client_name="redis-py")
    r.flushall()
    check(r.client_getname(), "redis-py")
    check(r.set("k", "v", px=60000), True)
    check(r.get("k"), b"v")
    check(r.get("nosuch"), None)
    binary = bytes([0, 13, 10, 255, 254])
    r.set("binary", binary)
    check(r.get("binary"), binary)
    r.set("large", b"x" * 2_000_000)
    check(len(r.get("large")), 2_000_000)
    r.hset("h", mapping={"a": 1, "b": 2})
    check(r.hgetall("h"), {b"a": b"1", b"b": b"2"})
    check(r.zadd("z", {"m": 1.5}), 1)
    check(r.zrange("z", 0, -1, withscores=True), [(b"m", 1.5)])
    check("integer" in raises(redis.ResponseError, r.incr, "k"), True)
    r.mset({f"scan:{i}": i for i in range(200)})
    check(len(set(r.scan_iter("scan:*"))), 200)


def limiters():
    r = connect()
    check(r.execute_command("CL.THROTTLE", "limit", 4, 10, 100, 5), [0, 5, 0, -1, 50])
    check(r.execute_command("CL.THROTTLE", "limit", 4, 10, 100)[0], 1)
    entry = r.command()["cl.throttle"]
    check((entry["arity"], entry["first_key_pos"], entry["last_key_pos"]), (-5, 1, 1))
    check(r.command_getkeys("CL.THROTTLE", "k", 1, 2, 3), ["k"])


def pipelines():
    with connect().pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.incr("count")
        check(pipe.execute(), list(range(1, 1001)))
        pipe.set("p", 1).execute_command("CL.THROTTLE", "pl", 15, 30, 60)
        pipe.incr("p").lpush("p", "x")
        replies = pipe.execute(raise_on_error=False)
        check(replies[:3], [True, [0, 16, 15, -1, 2], 2])
        check(isinstance(replies[3], redis.ResponseError), True)


def transactions():
    r, other = connect(), connect()
    with r.pipeline() as pipe:
        pipe.set("t", 1).incr("t").execute_command("CL.THROTTLE", "tl", 15, 30, 60)
        check(pipe.execute(), [True, 2, [0, 16, 15, -1, 2]])
        pipe.watch("t")
        other.set("t", 10)
        pipe.multi()
        pipe.incr("t")
        raises(redis.WatchError, pipe.execute)
    check(r.transaction(lambda pipe: pipe.multi() or pipe.incr("t"), "t"), [11])


def scripts():
    add = connect().register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    check(add(["s"], [5]), 5)
    check(add(["s"], [5]), 10)


def locks():
    """A lock is three scripts and a blocking wait."""
    r, counts = connect(), []

    def work():
        for _ in range(10):
            with r.lock("lock", timeout=20, sleep=0.001):
                counts.append(len(counts))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(counts, list(range(40)))


def databases():
    check(connect(db=3).set("k", "three"), True)
    check(connect().get("k"), b"v")


def messages():
    subscriber, publisher = connect().pubsub(), connect()
    subscriber.subscribe("channel")
    subscriber.psubscribe("chan*")
    check([subscriber.get_message(timeout=10)["type"] for _ in range(2)], ["subscribe", "psubscribe"])
    check(publisher.publish("channel", "hello"), 2)
    got = sorted(subscriber.get_message(timeout=10)["type"] for _ in range(2))
    check(got, ["message", "pmessage"])
    subscriber.ping()
    check(subscriber.get_message(timeout=10)["type"], "pong")
    subscriber.unsubscribe()
    subscriber.punsubscribe()
    check([subscriber.get_message(timeout=10)["type"] for _ in range(2)], ["unsubscribe", "punsubscribe"])
    subscriber.close()


def blocking():
    popped = []
    waiter = threading.Thread(target=lambda: popped.append(connect().blpop("list", 10)))
    waiter.start()
    connect().lpush("list", "x")
    waiter.join()
    check(popped, [(b"list", b"x")])
    check(connect().brpop("list", 0.01), None)


def monitoring():
    with connect().monitor() as monitor:
        connect().getset("k", "monitored")
        for command in monitor.listen():
            if command["command"].startswith("GETSET"):
                check(command["command"], "GETSET k monitored")
                return


for part in (commands, limiters, pipelines, transactions, scripts, locks, databases, messages, blocking, monitoring):
    part()
    print(part.__name__, flush=True)
