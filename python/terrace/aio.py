"""The same with `await`: calls run on a few threads of their own, and wait when too many are under way.

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
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar

from . import _database
from ._database import Figures
from ._terrace import Batch, Hash, Ordered, Table, Tree

__all__ = ["AsyncDatabase", "AsyncMap", "open"]

T = TypeVar("T")
Data = bytes | str

#: Threads that calls run on, unless said otherwise.
THREADS = 4
#: Calls that may be under way or wait for a thread; the next one waits before it begins.
QUEUE = 64
#: Records that cross over at once.
CHUNK = 1024


class _Pool:
    def __init__(self, threads: int, queue: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="terrace-aio")
        self._places = asyncio.Semaphore(queue)

    async def run(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        async with self._places:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, lambda: call(*args, **named))

    def end(self) -> None:
        self._threads.shutdown(wait=False)


class AsyncMap:
    """A structure, with `await`. `map` is the one without."""

    def __init__(self, pool: _Pool, map: Tree | Hash | Table) -> None:
        self._pool = pool
        self.map = map

    async def get(self, key: Data) -> bytes | None:
        """The value of a key, if it is there."""
        return await self._pool.run(self.map.get, key)

    async def get_many(self, keys: Iterable[Data]) -> list[bytes | None]:
        """The values of many keys in one call."""
        return await self._pool.run(self.map.get_many, list(keys))

    async def contains(self, key: Data) -> bool:
        """Whether a key is there."""
        return await self._pool.run(self.map.__contains__, key)

    async def put(self, key: Data, value: Data, *, sync: bool | None = None) -> None:
        """Writes a record, whether or not the key is there."""
        await self._pool.run(self.map.put, key, value, sync=sync)

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

    async def put_many(self, records: Iterable[tuple[Data, Data]]) -> None:
        """Writes many records."""
        await self._pool.run(self.map.update, list(records))

    async def _through(self, begin: Callable[[], Iterator[tuple[bytes, bytes]]]) -> AsyncIterator[tuple[bytes, bytes]]:
        entries = await self._pool.run(begin)
        while chunk := await self._pool.run(lambda: list(islice(entries, CHUNK))):
            for entry in chunk:
                yield entry

    def items(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """All records."""
        return self._through(lambda: iter(self.map.items()))

    def range(
        self, start: Data | None = None, stop: Data | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The records with keys from `start` on and before `stop`, from either end."""
        ordered = self.map
        if not isinstance(ordered, Ordered):
            raise TypeError("a hash table keeps no order of keys")
        return self._through(lambda: ordered.range(start, stop, reverse=reverse))


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

    async def hash(self, name: str, **options: Any) -> AsyncMap:
        """The hash table of this name, made if there is none."""
        return AsyncMap(self._pool, await self._pool.run(self.db.hash, name, **options))

    async def table(self, name: str, **options: Any) -> AsyncMap:
        """The table of this name, made if there is none."""
        return AsyncMap(self._pool, await self._pool.run(self.db.table, name, **options))

    def batch(self, *, sync: bool = False) -> Batch:
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
    return AsyncDatabase(await pool.run(_database.open, path, **options), pool)
