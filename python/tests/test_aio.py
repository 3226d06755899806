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
        with pytest.raises(RuntimeError):
            await t.get("a")

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
