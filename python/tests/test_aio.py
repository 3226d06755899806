"""The same with await."""

import asyncio

import pytest

import terrace
import terrace.aio


def test_calls_are_awaited(tmp_path):
    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory="16MiB") as db:
            t, h = await db.tree("t"), await db.hash("h")
            await asyncio.gather(*(t.put(f"{i:04}", str(i)) for i in range(500)))
            assert await t.get("0007") == b"7" and await t.get("x") is None
            assert await t.get_many(["0001", "x"]) == [b"1", None]
            assert await t.contains("0001") and await t.insert("0001", "x") is False
            assert [k async for k, _ in t.range("0498")] == [b"0498", b"0499"]
            assert len([k async for k, _ in t.items()]) == 500
            assert await t.remove("0001") == b"1"
            await t.delete("0002", sync=True)
            await t.put_many([("a", "1"), ("b", "2")])
            await asyncio.gather(*(h.update("n", lambda old: str(int(old or b"0") + 1)) for _ in range(50)))
            assert await h.get("n") == b"50"
            with pytest.raises(TypeError):
                h.range()
            batch = db.batch()
            batch.put(t.map, "c", "3")
            await db.write(batch)
            await db.sync()
            await db.checkpoint()
            assert (await db.stats(survey=True)).structures
            with pytest.raises(TypeError):
                await t.put("a", 5)
            with pytest.raises(ZeroDivisionError):
                await t.update("a", lambda old: 1 // 0)
        await db.close()
        for call in (t.get("a"), t.put("a", "1"), db.tree("t"), db.sync(), anext(t.items())):
            with pytest.raises(terrace.Closed):
                await call

    asyncio.run(main())


def test_others_get_on_while_calls_wait(tmp_path):
    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory="16MiB", threads=1, queue=2) as db:
            t = await db.tree("t")
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            await asyncio.gather(*(t.put(str(i), "x") for i in range(300)))
            ticking.cancel()
            assert ticks > 10
            # Cancelling one that waits for its turn costs the others nothing.
            calls = [asyncio.create_task(t.put(str(i), "y")) for i in range(20)]
            calls[15].cancel()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(d, asyncio.CancelledError) for d in done) == 1
            assert await t.get("19") == b"y"

    asyncio.run(main())


def test_the_rest_of_the_database_is_awaited_too(tmp_path):
    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory="16MiB") as db:
            t, lsm = await db.tree("t"), await db.lsm("l")
            people = await db.table("people", indexes={"city": "json:/city"})
            await people.put("alice", '{"city":"Berlin"}')
            await people.put("bob", '{"city":"Lima"}')
            city = await people.index("city")
            assert [k async for k, _ in city.get("Lima")] == [b"bob"]
            assert [k async for k, _ in city.range("A", "C")] == [b"alice"]
            assert [k async for k, _ in city.prefix("L", reverse=True)] == [b"bob"]
            assert [k async for k in city.keys()] == [(b"Berlin", b"alice"), (b"Lima", b"bob")]
            with pytest.raises(TypeError, match="indexes"):
                await t.index("city")
            await asyncio.gather(*(lsm.merge("n", terrace.Merge.add(1)) for _ in range(20)))
            assert terrace.unpack_int(await lsm.get("n")) == 20
            assert await t.load((f"{i:03}", "x") for i in range(100)) == 100
            assert [k async for k, _ in t.prefix("09")] == [b"%03d" % i for i in range(90, 100)]

            def pay(tx):
                left = int(tx.get(t.map, "a", b"10")) - 3
                tx.put(t.map, "a", str(left))
                tx.merge(lsm.map, "n", terrace.Merge.add(1))
                return left

            assert await db.transaction(pay, sync=True, label="pay") == 7
            assert await db.read(lambda r: (r.get(t.map, "a"), r.contains(people.map, "x"))) == (b"7", False)
            async with await db.snapshot() as then:
                await t.put("a", "later")
                old = await then.map("t")
                assert await old.get("a") == b"7" and await old.get_many(["a", "z"]) == [b"7", None]
                assert len([k async for k, _ in old.items()]) == 101
                assert [k async for k, _ in (await (await then.map("people")).index("city")).get("Lima")] == [b"bob"]
                with pytest.raises(AttributeError):
                    old.put
            assert (await db.backup(tmp_path / "set")).time > 0 and terrace.list_backup(tmp_path / "set")
        with pytest.raises(terrace.Error):
            await terrace.aio.open(tmp_path / "nothing", create=False)

    asyncio.run(main())


def test_one_database_is_used_from_several_event_loops(tmp_path):
    async def many(db):
        t = await db.tree("t")
        await asyncio.gather(*(t.put(f"{i}", "x") for i in range(100)))
        return await t.pop_first()

    db = asyncio.run(terrace.aio.open(tmp_path / "db", memory="16MiB", threads=1, queue=2))
    for _ in range(3):
        assert asyncio.run(many(db)) == (b"0", b"x")
    asyncio.run(db.close())


def test_a_backup_is_cancelled_with_its_task(tmp_path):
    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory="16MiB") as db:
            await (await db.tree("t")).load((f"{i:05}", "x" * 500) for i in range(5000))
            task = asyncio.create_task(db.backup(tmp_path / "set", rate="4k", mark="no"))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await db.mark("here")).name == "here"
            assert (await db.compact(rate="fast")).pages_after > 0

    asyncio.run(main())
