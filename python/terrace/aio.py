"""The same with `await`: calls run on a few threads of their own, and wait when too many are under way.

`get`, `get_many` and `contains` of a structure take none of them: what memory has is answered at once, and pages that it has not
are read by a thread of the database, for all who wait.

    import terrace.aio
    async with await terrace.aio.open("x.db", memory="64MiB") as db:
        users = await db.tree("users")
        await users.put("alice", "Berlin")
        print(await users.get("alice"))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from . import _database
from ._database import Figures
from ._terrace import (
    Batch,
    Cancel,
    Hash,
    Index,
    Lsm,
    Merge,
    Ordered,
    Reader,
    Snapshot,
    SnapshotMap,
    Table,
    Transaction,
    Tree,
)

__all__ = ["AsyncDatabase", "AsyncIndex", "AsyncMap", "AsyncReader", "AsyncSnapshot", "open"]

T = TypeVar("T")
Data = bytes | str

#: Threads that calls run on, unless said otherwise.
THREADS = 4
#: Calls of an event loop that may be under way or wait for a thread; the next one waits before it begins.
QUEUE = 64
#: Records that cross over at once.
CHUNK = 1024
#: Pages that are brought in for one look, before it is made on a thread.
MISSES = 4
#: Keys of one call that are looked at at a time.
LOOKS = 256
#: Pages of one call that are waited for at a time: as many as the thread of the database reads together.
PAGES = 64
#: Looks that memory answers, before other tasks have their turn.
TURNS = 64


class _Pool:
    def __init__(self, threads: int, queue: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="terrace-aio")
        self._queue = queue
        self._ended = False
        # Of each event loop: one that has waited in a loop belongs to that for good.
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def run(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        loop = asyncio.get_running_loop()
        places = self._places.get(loop)
        if places is None:
            places = self._places.setdefault(loop, asyncio.Semaphore(self._queue))
        async with places:
            if self._ended:
                # The database is closed, and says so at once.
                return call(*args, **named)
            return await loop.run_in_executor(self._threads, lambda: call(*args, **named))

    async def long(self, cancel: Cancel, call: Callable[[], T]) -> T:
        """A call that takes long, and is cancelled with its task."""
        try:
            return await self.run(call)
        except asyncio.CancelledError:
            cancel.cancel()
            raise

    async def through(
        self, begin: Callable[[], Iterator[tuple[bytes, bytes]]]
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """Records from an iterator, some at a time."""
        entries = await self.run(begin)
        while chunk := await self.run(lambda: list(islice(entries, CHUNK))):
            for entry in chunk:
                yield entry

    def end(self) -> None:
        self._ended = True
        self._threads.shutdown(wait=False)


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_look_again, future)
    except RuntimeError:
        pass  # The loop is closed, and with it ended who waited.


def _look_again(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class AsyncIndex:
    """An index of a table, for reading, with `await`: primary keys with their rows."""

    def __init__(self, pool: _Pool, index: Index) -> None:
        self._pool = pool
        self.index = index

    def get(self, key: Data) -> AsyncIterator[tuple[bytes, bytes]]:
        """The rows with this key."""
        return self._pool.through(lambda: self.index.get(key))

    def range(
        self, start: Data | None = None, stop: Data | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The rows with keys from `start` on and before `stop`, from either end."""
        return self._pool.through(lambda: self.index.range(start, stop, reverse=reverse))

    def prefix(self, prefix: Data, *, reverse: bool = False) -> AsyncIterator[tuple[bytes, bytes]]:
        """The rows whose keys begin so."""
        return self._pool.through(lambda: self.index.prefix(prefix, reverse=reverse))

    def keys(
        self, start: Data | None = None, stop: Data | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """Keys of the index with primary keys, without rows."""
        return self._pool.through(lambda: self.index.keys(start, stop, reverse=reverse))


class AsyncReader:
    """A structure, or one of a snapshot, for reading with `await`. `map` is the one without."""

    def __init__(self, pool: _Pool, map: Tree | Lsm | Hash | Table | SnapshotMap) -> None:
        self._pool = pool
        self._read = map

    async def get(self, key: Data) -> bytes | None:
        """The value of a key, if it is there."""
        return await self._pool.run(self._read.get, key)

    async def get_many(self, keys: Iterable[Data]) -> list[bytes | None]:
        """The values of many keys in one call."""
        # One key alone is no list of keys, which the call says.
        keys = keys if isinstance(keys, bytes | str) else list(keys)
        return await self._pool.run(self._read.get_many, keys)

    async def contains(self, key: Data) -> bool:
        """Whether a key is there."""
        return await self._pool.run(self._read.__contains__, key)

    def items(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """All records."""
        return self._pool.through(lambda: iter(self._read.items()))

    def _ordered(self) -> Ordered | SnapshotMap:
        if isinstance(self._read, Hash) or self._read.kind == "hash":
            raise TypeError("a hash table keeps no order of keys")
        return self._read

    def range(
        self, start: Data | None = None, stop: Data | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The records with keys from `start` on and before `stop`, from either end."""
        ordered = self._ordered()
        return self._pool.through(lambda: ordered.range(start, stop, reverse=reverse))

    def prefix(self, prefix: Data, *, reverse: bool = False) -> AsyncIterator[tuple[bytes, bytes]]:
        """The records whose keys begin so."""
        ordered = self._ordered()
        return self._pool.through(lambda: ordered.prefix(prefix, reverse=reverse))

    async def index(self, name: str) -> AsyncIndex:
        """An index of a table."""
        table = self._read
        if not isinstance(table, Table | SnapshotMap):
            raise TypeError("only tables have indexes")
        return AsyncIndex(self._pool, await self._pool.run(table.index, name))


class AsyncMap(AsyncReader):
    """A structure, with `await`. `map` is the one without."""

    def __init__(self, pool: _Pool, map: Tree | Lsm | Hash | Table) -> None:
        super().__init__(pool, map)
        self.map = map
        self._answered = 0

    async def _see(self, look: Callable[[Data, int], T | None], key: Data) -> T | None:
        """What memory answers, at once or when it has the pages that were missing; None if that takes a thread."""
        loop, missed = asyncio.get_running_loop(), 0
        while (found := look(key, missed)) is None:
            future: asyncio.Future[None] = loop.create_future()
            if missed == MISSES or not self.map._when_resident(key, partial(_tell, loop, future)):
                return None
            await future
            missed += 1
        await self._take_turns(1)
        return found

    async def _take_turns(self, looks: int) -> None:
        """Lets others have their turn behind so many looks."""
        self._answered += looks
        if self._answered >= TURNS:
            self._answered = 0
            await asyncio.sleep(0)

    async def get(self, key: Data) -> bytes | None:
        """The value of a key, if it is there."""
        found = await self._see(self.map._look, key)
        if found is None:
            return await super().get(key)
        return found if isinstance(found, bytes) else None

    async def get_many(self, keys: Iterable[Data]) -> list[bytes | None]:
        """The values of many keys in one call."""
        if isinstance(keys, bytes | str):
            return await super().get_many(keys)
        keys = list(keys)
        values: list[bytes | None] = [None] * len(keys)
        for_thread: list[int] = []
        for start in range(0, len(keys), LOOKS):
            lacking = self._look_at(keys, values, range(start, min(start + LOOKS, len(keys))), 0)
            for at in range(0, len(lacking), PAGES):
                for_thread += await self._see_many(keys, values, lacking[at : at + PAGES])
            await self._take_turns(LOOKS)
        if for_thread:
            found = await super().get_many([keys[i] for i in for_thread])
            for i, value in zip(for_thread, found, strict=True):
                values[i] = value
        return values

    def _look_at(
        self, keys: list[Data], values: list[bytes | None], places: Iterable[int], missed: int
    ) -> list[int]:
        """Puts what memory has of these places into `values`, and gives those of which a page is missing."""
        places = list(places)
        lacking: list[int] = []
        found = self.map._look_many([keys[i] for i in places], missed)
        for i, value in zip(places, found, strict=True):
            if isinstance(value, bytes):
                values[i] = value
            elif value is None:
                lacking.append(i)
        return lacking

    async def _see_many(self, keys: list[Data], values: list[bytes | None], places: list[int]) -> list[int]:
        """The same when the pages that are missing have come, which are read together; what takes a thread is left."""
        loop = asyncio.get_running_loop()
        for_thread: list[int] = []
        for missed in range(1, MISSES + 1):
            waits: list[asyncio.Future[None]] = []
            asked: list[int] = []
            for i in places:
                future: asyncio.Future[None] = loop.create_future()
                if self.map._when_resident(keys[i], partial(_tell, loop, future)):
                    waits.append(future)
                    asked.append(i)
                else:
                    for_thread.append(i)
            for future in waits:
                await future
            if not (places := self._look_at(keys, values, asked, missed)):
                break
        return for_thread + places

    async def contains(self, key: Data) -> bool:
        """Whether a key is there."""
        found = await self._see(self.map._has, key)
        return await super().contains(key) if found is None else found

    async def put(
        self, key: Data, value: Data, *, expire: float | None = None, sync: bool | None = None
    ) -> None:
        """Writes a record, whether or not the key is there; it is there for `expire` seconds, or for ever."""
        await self._pool.run(self.map.put, key, value, expire=expire, sync=sync)

    async def touch(self, key: Data, expire: float | None = None) -> bool:
        """Has a record expire in so many seconds, or never; says whether it is there."""
        return await self._pool.run(self.map.touch, key, expire)

    async def expires(self, key: Data) -> float | None:
        """Until when a record is there, in seconds since 1970; None if it stays."""
        return await self._pool.run(self.map.expires, key)

    async def insert(self, key: Data, value: Data) -> bool:
        """Writes a record if the key is not there, and says whether it did."""
        return await self._pool.run(self.map.insert, key, value)

    async def delete(self, key: Data, *, sync: bool | None = None) -> None:
        """Deletes a key, whether or not it is there."""
        await self._pool.run(self.map.delete, key, sync=sync)

    async def remove(self, key: Data) -> bytes | None:
        """Deletes a key, and gives its value, if it was there."""
        return await self._pool.run(self.map.remove, key)

    async def update(self, key: Data, change: Callable[[bytes | None], Data | None]) -> bool:
        """Replaces a value by what `change` makes of it; it runs on another thread, perhaps several times."""
        return await self._pool.run(self.map.update, key, change)

    async def put_many(self, records: Iterable[tuple[Data, Data]], *, sync: bool | None = None) -> None:
        """Writes many records."""
        await self._pool.run(self.map.update, list(records), sync=sync)

    async def merge(self, key: Data, merge: Merge, *, sync: bool | None = None) -> bool:
        """Changes a value by what is there, atomically; says whether it was changed."""
        return await self._pool.run(self.map.merge, key, merge, sync=sync)

    async def pop_first(self) -> tuple[bytes, bytes] | None:
        """Takes the record with the lowest key out: a queue."""
        return await self._pool.run(self._popped(first=True))

    async def pop_last(self) -> tuple[bytes, bytes] | None:
        """Takes the record with the highest key out: a stack."""
        return await self._pool.run(self._popped(first=False))

    def _popped(self, *, first: bool) -> Callable[[], tuple[bytes, bytes] | None]:
        if isinstance(self.map, Hash):
            raise TypeError("a hash table keeps no order of keys")
        return self.map.pop_first if first else self.map.pop_last

    async def load(self, records: Iterable[tuple[Data, Data]]) -> int:
        """Sorts many records first and writes each page once; `records` is gone through on another thread."""
        return await self._pool.run(self.map.load, records)


class AsyncSnapshot:
    """Everything as it was at one instant, with `await`. `snapshot` is the one without."""

    def __init__(self, pool: _Pool, snapshot: Snapshot) -> None:
        self._pool = pool
        self.snapshot = snapshot

    async def map(self, name: str) -> AsyncReader:
        """A structure as it was."""
        return AsyncReader(self._pool, await self._pool.run(self.snapshot.__getitem__, name))

    async def close(self) -> None:
        """Gives back what it keeps. Twice is nothing."""
        await self._pool.run(self.snapshot.close)

    async def __aenter__(self) -> AsyncSnapshot:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncDatabase:
    """A database, with `await`. `db` is the one without."""

    def __init__(self, db: _database.Database, pool: _Pool) -> None:
        self.db = db
        self._pool = pool

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes it. Twice is nothing."""
        if not self.db.closed:
            await self._pool.run(self.db.close)
            self._pool.end()

    async def tree(self, name: str, **options: Any) -> AsyncMap:
        """The tree of this name, made if there is none."""
        return AsyncMap(self._pool, await self._pool.run(self.db.tree, name, **options))

    async def lsm(self, name: str, **options: Any) -> AsyncMap:
        """The LSM-tree of this name, made if there is none."""
        return AsyncMap(self._pool, await self._pool.run(self.db.lsm, name, **options))

    async def hash(self, name: str, **options: Any) -> AsyncMap:
        """The hash table of this name, made if there is none."""
        return AsyncMap(self._pool, await self._pool.run(self.db.hash, name, **options))

    async def table(self, name: str, **options: Any) -> AsyncMap:
        """The table of this name, made if there is none."""
        return AsyncMap(self._pool, await self._pool.run(self.db.table, name, **options))

    async def transaction(
        self,
        call: Callable[[Transaction], T],
        *,
        sync: bool | None = None,
        attempts: int = 100,
        label: str | None = None,
    ) -> T:
        """Runs `call`, a plain function, on another thread with a transaction, and commits: see `Database`.

        In it structures are those without `await`: `t.get(users.map, key)`.
        """
        run = self.db.transaction
        return await self._pool.run(lambda: run(call, sync=sync, attempts=attempts, label=label))

    async def read(self, call: Callable[[Reader], T], *, attempts: int = 100, label: str | None = None) -> T:
        """Runs `call`, a plain function, on another thread: all that it reads is of one instant."""
        return await self._pool.run(lambda: self.db.read(call, attempts=attempts, label=label))

    async def snapshot(self, *, max_age: float | None = None) -> AsyncSnapshot:
        """Everything as it is now, for reading as long as one likes."""
        return AsyncSnapshot(self._pool, await self._pool.run(self.db.snapshot, max_age=max_age))

    async def backup(
        self,
        set: str | PathLike[str],
        *,
        full: bool = False,
        mark: str | None = None,
        rate: int | str | None = None,
    ) -> Figures:
        """Adds a point to the backup set in a folder, while others write, and says what that came to.

        When the task is cancelled so is the backup.
        """
        cancel = Cancel()
        run = self.db.backup
        return await self._pool.long(cancel, lambda: run(set, full=full, mark=mark, rate=rate, cancel=cancel))

    async def compact(self, *, fill: float | None = None, rate: int | str | None = None) -> Figures:
        """Fills the pages and shortens the file, while others read and write. When the task is cancelled so is it."""
        cancel = Cancel()
        run = self.db.compact
        return await self._pool.long(cancel, lambda: run(fill=fill, rate=rate, cancel=cancel))

    async def mark(self, name: str) -> Figures:
        """Names this instant, durably."""
        return await self._pool.run(self.db.mark, name)

    def batch(self, *, sync: bool | None = None) -> Batch:
        """An empty batch; add to it, and `await write(batch)`."""
        return self.db.batch(sync=sync)

    async def write(self, batch: Batch) -> None:
        """Makes the changes of a batch, all or none."""
        await self._pool.run(batch.write)

    async def sync(self) -> None:
        """Makes everything durable that was written so far."""
        await self._pool.run(self.db.sync)

    async def checkpoint(self) -> None:
        """Makes a checkpoint."""
        await self._pool.run(self.db.checkpoint)

    async def stats(self, *, survey: bool = False) -> Figures:
        """The figures."""
        return await self._pool.run(self.db.stats, survey=survey)


async def open(
    path: str | PathLike[str], *, threads: int = THREADS, queue: int = QUEUE, **options: Any
) -> AsyncDatabase:
    """Opens a database; `threads` run the calls, and `queue` of them may be under way."""
    pool = _Pool(threads, queue)
    try:
        return AsyncDatabase(await pool.run(_database.open, path, **options), pool)
    except BaseException:
        pool.end()
        raise
