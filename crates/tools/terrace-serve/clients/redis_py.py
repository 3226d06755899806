"""redis-py, sync and async, in both versions of the protocol: caches, queues, locks, subscribes."""

import asyncio
import sys
import threading

import redis
import redis.asyncio

PORT = int(sys.argv[1])


def sync(protocol):
    r = redis.Redis(port=PORT, protocol=protocol, decode_responses=True)
    r.flushall()
    # A cache.
    assert r.set("page", "text", ex=100) and r.get("page") == "text" and 0 < r.ttl("page") <= 100
    assert r.set("page", "other", nx=True) is None
    r.hset("user", mapping={"name": "Ann", "age": 7})
    assert r.hgetall("user") == {"name": "Ann", "age": "7"}
    assert r.hexpire("user", 50, "age") == [1] and 0 < r.httl("user", "age")[0] <= 50
    # A pipeline is a transaction here, and one that watches loses against a change.
    with r.pipeline() as pipe:
        assert pipe.incr("n").incr("n").get("n").execute() == [1, 2, "2"]
    with r.pipeline() as pipe:
        pipe.watch("n")
        r.set("n", 10)
        pipe.multi()
        pipe.incr("n")
        try:
            pipe.execute()
            raise SystemExit("a transaction went through behind a change")
        except redis.WatchError:
            pass
    # A queue.
    got = []
    worker = threading.Thread(target=lambda: got.extend(r.blpop("queue", timeout=30) for _ in range(3)))
    worker.start()
    for i in range(3):
        r.rpush("queue", i)
    worker.join()
    assert [tuple(one) for one in got] == [("queue", "0"), ("queue", "1"), ("queue", "2")], got
    # A lock, which is released by a script.
    lock = r.lock("lock", timeout=30)
    assert lock.acquire() and not r.lock("lock").acquire(blocking=False)
    lock.extend(10)
    lock.release()
    assert r.lock("lock", timeout=1).acquire(blocking=False)
    script = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert script(keys=["s"], args=[5]) == 5
    r.function_load("#!lua name=lib\nredis.register_function('twice', function(k, a) return a[1] * 2 end)", replace=True)
    assert r.fcall("twice", 0, 21) == 42
    # Channels.
    p = r.pubsub()
    p.subscribe("news")
    p.psubscribe("n*")
    for _ in range(2):
        assert p.get_message(timeout=30) is not None
    assert r.publish("news", "hello") == 2
    heard = sorted(p.get_message(timeout=30)["type"] for _ in range(2))
    assert heard == ["message", "pmessage"], heard
    p.close()
    # Sorted sets, streams, scans.
    r.zadd("z", {"a": 1, "b": 2.5})
    assert [tuple(pair) for pair in r.zrange("z", 0, -1, withscores=True)] == [("a", 1.0), ("b", 2.5)]
    r.xgroup_create("x", "g", mkstream=True)
    entry = r.xadd("x", {"f": "v"})
    read = r.xreadgroup("g", "c", {"x": ">"})
    assert entry in str(read) and r.xack("x", "g", entry) == 1
    r.mset({f"key:{i}": i for i in range(500)})
    assert len(set(r.scan_iter("key:*"))) == 500
    dump = redis.Redis(port=PORT).dump("n")
    assert redis.Redis(port=PORT).restore("copy", 0, dump) and r.get("copy") == "10"
    assert r.info()["redis_version"] == "7.0.15"


async def asynchronous(protocol):
    r = redis.asyncio.Redis(port=PORT, protocol=protocol, decode_responses=True)
    await r.flushall()
    await asyncio.gather(*(r.set(f"k{i}", i) for i in range(50)))
    assert sum(map(int, await r.mget([f"k{i}" for i in range(50)]))) == 1225
    async with r.pipeline(transaction=True) as pipe:
        assert await pipe.incr("n").incr("n").execute() == [1, 2]
    waits = asyncio.create_task(r.blpop("queue", timeout=30))
    await asyncio.sleep(0.05)
    await r.rpush("queue", "x")
    assert tuple(await waits) == ("queue", "x")
    async with r.lock("lock", timeout=10):
        assert await r.get("lock") is not None
    assert await r.get("lock") is None
    async with r.pubsub() as p:
        await p.subscribe("news")
        assert await p.get_message(timeout=30)
        await r.publish("news", "hello")
        assert (await p.get_message(timeout=30))["data"] == "hello"
    await r.aclose()


for protocol in (2, 3):
    sync(protocol)
    asyncio.run(asynchronous(protocol))
    print(f"redis-py {redis.__version__}, protocol {protocol}: well")
