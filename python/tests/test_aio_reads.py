"""Reads of terrace.aio that take no thread: of memory, and of pages that are read for many at once."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import terrace
import terrace.aio

COUNT = 20_000
#: Several times less than the records take.
MEMORY = "2MiB"
#: No test depends on it: instead of waiting for ever it fails.
LONG = 120


def value(key):
    return key.encode() * 50


#: So far apart that each is on a page of its own.
KEYS = [f"{i:06}" for i in range(0, COUNT, 40)]


def fill(path):
    """A database whose records are cold."""
    with terrace.open(path, memory=MEMORY) as db:
        for map in (db.tree("tree"), db.hash("hash")):
            map.load((key, value(key)) for key in (f"{i:06}" for i in range(COUNT)))
        db.tree("tree")["long"] = b"x" * 200_000


class Lacking:
    """A structure in whose memory so many pages are missing for each key. They are there when a test says so."""

    def __init__(self, map, pages, *, takes=True):
        self.map, self.pages, self.takes = map, pages, takes
        self.missed, self.waits = [], []

    def __getattr__(self, name):
        return getattr(self.map, name)

    def _look(self, key, missed):
        self.missed.append(missed)
        return None if missed < self.pages else self.map._look(key, missed)

    def _look_many(self, keys, missed):
        return [self._look(key, missed) for key in keys]

    def _when_resident(self, key, then):
        if self.takes:
            self.waits.append(then)
        return self.takes


class Counting:
    """A structure that counts who asks for pages."""

    def __init__(self, map):
        self.map, self.asked = map, 0

    def __getattr__(self, name):
        return getattr(self.map, name)

    def _when_resident(self, key, then):
        self.asked += 1
        return self.map._when_resident(key, then)


async def until(holds):
    while not holds():
        await asyncio.sleep(0.001)


def run(main):
    """With the errors that only the loop hears."""
    heard = []

    async def hears():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        return await asyncio.wait_for(main, LONG)

    done = asyncio.run(hears())
    assert not heard, heard
    return done


@pytest.mark.parametrize("kind", ["tree", "lsm", "hash", "table"])
def test_what_memory_has_takes_no_thread(tmp_path, kind):
    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory="16MiB", threads=1, queue=1) as db:
            map = await getattr(db, kind)("a")
            leased = await getattr(db, kind)("b", expiring=True)
            for at in (map, leased):
                await at.put("a", "1")
                await at.put("empty", "")
                await at.put("long", b"x" * 100_000)
            begun, end = asyncio.Event(), threading.Event()
            loop = asyncio.get_running_loop()

            def hold(_):
                loop.call_soon_threadsafe(begun.set)
                end.wait()

            held = asyncio.create_task(db.transaction(hold))
            try:
                await begun.wait()
                for at in (map, leased):
                    assert await at.get("a") == b"1" and await at.contains("a") is True
                    assert await at.get("empty") == b"" and await at.contains("empty") is True
                    assert await at.get("no") is None and await at.contains("no") is False
                    assert await at.get_many(["no", "a", b"a", "empty"]) == [None, b"1", b"1", b""]
                    assert await at.get_many(iter(["a"] * 1000)) == [b"1"] * 1000
                    assert await at.get_many([]) == []
                many = lambda key: map.get_many(["a", key])  # noqa: E731
                for wrong in (1, None, "\ud800"):
                    for call in (map.get, map.contains, many):
                        with pytest.raises((TypeError, UnicodeEncodeError)):
                            await call(wrong)
                with pytest.raises(terrace.KeyTooLong):
                    await map.get(b"x" * (terrace.MAX_KEY_BYTES + 1))
                assert not held.done()
            finally:
                end.set()
            await held
            assert await map.get("long") == b"x" * 100_000
            for one in ("a", b"a"):
                with pytest.raises(TypeError, match="this is one"):
                    await map.get_many(one)
            # However much memory answers, others have their turn.
            other = asyncio.create_task(asyncio.sleep(0))
            for _ in range(10 * terrace.aio.TURNS):
                await map.get("a")
            assert other.done()

    run(main())


@pytest.mark.parametrize("kind", ["tree", "hash"])
def test_hundreds_that_wait_for_pages_are_all_answered(tmp_path, kind):
    fill(tmp_path / "db")

    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory=MEMORY, threads=1, queue=1) as db:
            map = await getattr(db, kind)(kind)
            map.map = Counting(map.map)
            found = await asyncio.gather(*(map.get(key) for key in KEYS))
            assert found == [value(key) for key in KEYS]
            assert map.map.asked > len(KEYS) / 4
            there = await asyncio.gather(*(map.contains(key) for key in KEYS + [key + "x" for key in KEYS]))
            assert there == [True] * len(KEYS) + [False] * len(KEYS)
            # Other keys push those out again.
            asked, keys = map.map.asked, [key for key in KEYS for key in (key, key + "x")] + ["no"]
            wanted = [value(key) if len(key) == 6 else None for key in keys[:-1]] + [None]
            assert await map.get_many(keys) == wanted
            assert map.map.asked > asked + len(KEYS) / 4
            if kind == "tree":
                assert await map.get("long") == b"x" * 200_000
                assert await map.get_many(["long", KEYS[0]]) == [b"x" * 200_000, value(KEYS[0])]

    run(main())


def test_who_looks_in_vain_or_cannot_wait_takes_a_thread(tmp_path):
    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory="16MiB") as db:
            t = await db.tree("t")
            await t.put("a", "1")
            native = t.map
            for pages, looks in ((1, [0, 1]), (4, [0, 1, 2, 3, 4]), (99, [0, 1, 2, 3, 4])):
                t.map = Lacking(native, pages)
                read = asyncio.create_task(t.get("a"))
                for tells in range(len(looks) - 1):
                    await until(lambda: t.map.waits)
                    assert not read.done()
                    t.map.waits.pop()()
                assert await read == b"1" and t.map.missed == looks
            t.map = Lacking(native, 99, takes=False)
            assert await t.get("a") == b"1" and t.map.missed == [0]
            await t.put("b", "2")
            for pages in (1, 4, 99):
                t.map = Lacking(native, pages)
                read = asyncio.create_task(t.get_many(["a", "no", "b"]))
                for missed in range(1, min(pages, 4) + 1):
                    # All are asked for before one is waited for.
                    await until(lambda: len(t.map.waits) == 3)
                    assert not read.done() and t.map.missed == [i for i in range(missed) for _ in range(3)]
                    waits, t.map.waits = t.map.waits, []
                    for then in waits:
                        then()
                assert await read == [b"1", None, b"2"]
            t.map = Lacking(native, 99, takes=False)
            assert await t.get_many(["b", "a"]) == [b"2", b"1"] and t.map.missed == [0, 0]

    run(main())


def test_a_read_that_is_cancelled_while_it_waits_is_told_in_vain(tmp_path):
    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory="16MiB") as db:
            t = await db.tree("t")
            t.map = Lacking(t.map, 1)
            reads = [asyncio.create_task(t.get("a")) for _ in range(3)]
            await until(lambda: len(t.map.waits) == 3)
            reads[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await reads[0]
            # Told before it hears that it is cancelled, and twice.
            t.map.waits[1]()
            reads[1].cancel()
            for then in t.map.waits * 2:
                then()
            with pytest.raises(asyncio.CancelledError):
                await reads[1]
            assert await reads[2] is None
            await asyncio.sleep(0)

    run(main())


def test_cancelled_reads_of_pages_keep_no_other_waiting(tmp_path):
    fill(tmp_path / "db")

    async def main():
        async with await terrace.aio.open(tmp_path / "db", memory=MEMORY) as db:
            t = await db.tree("tree")
            reads = [asyncio.create_task(t.get(key)) for key in KEYS]
            await asyncio.sleep(0)
            for read in reads[::2]:
                read.cancel()
            found = await asyncio.gather(*reads, return_exceptions=True)
            assert found[1::2] == [value(key) for key in KEYS[1::2]]
            for key, got in zip(KEYS[::2], found[::2], strict=True):
                assert got == value(key) or isinstance(got, asyncio.CancelledError)

    run(main())


@pytest.mark.parametrize("beside", [True, False])
def test_reads_that_wait_when_the_database_is_closed_are_told(tmp_path, beside):
    fill(tmp_path / "db")

    async def main():
        db = await terrace.aio.open(tmp_path / "db", memory=MEMORY)
        t, h = await db.tree("tree"), await db.hash("hash")
        reads = [asyncio.create_task(map.get(key)) for map in (t, h) for key in KEYS]
        many = asyncio.create_task(t.get_many(KEYS[::-1]))
        await asyncio.sleep(0)
        if beside:
            await db.close()
        else:
            # Holds the loop up, and so all who are told.
            db.db.close()
        found = await asyncio.gather(*reads, return_exceptions=True)
        for key, got in zip(KEYS * 2, found, strict=True):
            assert got == value(key) or isinstance(got, terrace.Error) and "closed" in str(got), got
        try:
            assert await many == [value(key) for key in KEYS[::-1]]
        except terrace.Error as e:
            assert "closed" in str(e)
        for call in (t.get, t.contains, lambda key: t.get_many([key])):
            with pytest.raises(terrace.Closed):
                await call("a")
        await db.close()

    for _ in range(3):
        run(main())


def test_two_loops_wait_at_the_same_time(tmp_path):
    fill(tmp_path / "db")
    db = asyncio.run(terrace.aio.open(tmp_path / "db", memory=MEMORY, threads=1, queue=1))
    ends = []

    def work(name, keys):
        async def main():
            map = await getattr(db, name)(name)
            found = await asyncio.gather(*(map.get(key) for key in keys))
            return found == [value(key) for key in keys]

        try:
            ends.append(run(main()))
        except BaseException as e:
            ends.append(e)

    wanted = (("tree", KEYS), ("hash", KEYS[1:]), ("tree", KEYS[::-1]))
    threads = [threading.Thread(target=work, args=args) for args in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [True] * 3
    asyncio.run(db.close())


def test_a_loop_may_end_while_a_read_waits(tmp_path):
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: None)
    db = loop.run_until_complete(terrace.aio.open(tmp_path / "db", memory="16MiB"))
    t = loop.run_until_complete(db.tree("t"))
    lacking = t.map = Lacking(t.map, 1)
    read = loop.create_task(t.get("a"))
    loop.run_until_complete(until(lambda: lacking.waits))
    # Before and after it is closed.
    lacking.waits[0]()
    loop.close()
    lacking.waits[0]()
    assert not read.done()
    assert asyncio.run(db.close()) is None


def test_a_database_may_be_lost_while_reads_wait(tmp_path):
    fill(tmp_path / "db")

    def lose():
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _, context: None)
        # Who waits for a place in the pool is told by the loop, which is closed.
        opening = terrace.aio.open(tmp_path / "db", memory=MEMORY, queue=len(KEYS))
        db = loop.run_until_complete(opening)
        t = loop.run_until_complete(db.tree("tree"))
        reads = [loop.create_task(t.get(key)) for key in KEYS]
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert len(reads) == len(KEYS)
        db._pool.end()

    for _ in range(3):
        lose()
        # The last who is told lets go of it.
        for _ in range(100 * LONG):
            gc.collect()
            try:
                with terrace.open(tmp_path / "db", memory=MEMORY) as db:
                    assert db.tree("tree")[KEYS[1]] == value(KEYS[1])
                break
            except terrace.Locked:
                time.sleep(0.01)
        else:
            pytest.fail("it stays open")


def test_a_process_may_end_while_reads_wait(tmp_path):
    fill(tmp_path / "db")
    code = f"""
        import asyncio, logging, terrace.aio
        logging.disable()
        loop = asyncio.new_event_loop()
        opening = terrace.aio.open({str(tmp_path / "db")!r}, memory={MEMORY!r}, queue=1000)
        db = loop.run_until_complete(opening)
        t = loop.run_until_complete(db.tree("tree"))
        reads = [loop.create_task(t.get(key)) for key in {KEYS!r}]
        loop.run_until_complete(asyncio.sleep(0))
        print("ended")
    """
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=LONG
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_the_child_of_a_fork_is_told_and_may_wait_in_its_own(tmp_path):
    fill(tmp_path / "db")
    fill(tmp_path / "other")

    async def cold(path):
        db = await terrace.aio.open(path, memory=MEMORY)
        t = await db.tree("tree")
        return db, t, await asyncio.gather(*(t.get(key) for key in KEYS))

    wanted = [value(key) for key in KEYS]
    db, t, found = run(cold(tmp_path / "db"))
    assert found == wanted
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (t.get, t.contains, lambda key: t.get_many([key])):
                with pytest.raises(terrace.Forked):
                    run(call(KEYS[0]))
            own, _, found = run(cold(tmp_path / "other"))
            del t, db
            gc.collect()
            run(own.close())
            code = 3 if found == wanted else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert asyncio.run(t.get(KEYS[0])) == wanted[0]
    asyncio.run(db.close())


def test_what_a_call_raises_that_is_told_harms_no_other(db, monkeypatch):
    raised, called = [], threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda about: raised.append(about.exc_type))
    t = db.tree("t")
    t["a"] = "1"
    assert t._when_resident("a", lambda: 1 // 0)
    assert t._when_resident("a", called.set)
    assert called.wait(LONG)
    assert raised == [ZeroDivisionError]
    # It may close the database.
    ended = threading.Event()

    def close():
        db.close()
        ended.set()

    assert t._when_resident("a", close)
    assert ended.wait(LONG)
    with pytest.raises(terrace.Closed):
        t._when_resident("a", close)
