"""The manners of the standard library's `dbm` modules, over a Terrace database.

    import terrace.dbm
    with terrace.dbm.open("cache.db", "c") as db:
        db["key"] = "value"

A database is a folder. Flags are those of `dbm`: "r" only reads, also what may not be written; "w" also
writes, "c" makes it if it is not there, "n" begins with an empty one. `keys()` is a list and `len()` counts, both by going through all records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from os import PathLike
from types import TracebackType
from typing import Any

from . import _database
from ._errors import Error, NotClosed

__all__ = ["error", "open", "whichdb"]

#: The structure that holds the records.
STRUCTURE = "dbm"

Data = bytes | str


class error(OSError):
    """What this module raises."""


def whichdb(path: str | bytes | PathLike[str] | PathLike[bytes]) -> str | None:
    """The name of this module if there is a database at the path."""
    return __name__ if os.path.isfile(os.path.join(os.fsdecode(path), "data")) else None


class _Dbm(MutableMapping[Data, bytes]):
    def __init__(self, db: _database.Database, writable: bool) -> None:
        self._db = db
        self._tree = db.tree(STRUCTURE)
        self._writable = writable

    def _open(self) -> None:
        if self._db.closed:
            raise error("the database is closed")

    def _write(self) -> None:
        self._open()
        if not self._writable:
            raise error("the database was opened for reading; open it with the flag 'w' or 'c'")

    def __getitem__(self, key: Data) -> bytes:
        self._open()
        return self._tree[key]

    def __setitem__(self, key: Data, value: Data) -> None:
        self._write()
        self._tree[key] = value

    def __delitem__(self, key: Data) -> None:
        self._write()
        del self._tree[key]

    def __contains__(self, key: object) -> bool:
        self._open()
        return key in self._tree

    def __iter__(self) -> Iterator[bytes]:
        self._open()
        return iter(self._tree)

    def __len__(self) -> int:
        self._open()
        return sum(1 for _ in self._tree)

    def keys(self) -> list[bytes]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """All keys, as a list."""
        return list(iter(self))

    def get(self, key: Data, default: Any = None) -> Any:
        """The value of a key, or the default."""
        self._open()
        return self._tree.get(key, default)

    def setdefault(self, key: Data, default: Data = b"") -> bytes:
        """The value of a key, which is made with the default if it is not there."""
        if self._writable:
            self._open()
            return self._tree.setdefault(key, default)
        self._open()
        found = self._tree.get(key)
        if found is None:
            raise error("the database was opened for reading, and the key is not there")
        return found

    def firstkey(self) -> bytes | None:
        """The lowest key, as gdbm has it."""
        self._open()
        first = self._tree.first()
        return None if first is None else first[0]

    def nextkey(self, key: Data) -> bytes | None:
        """The key after this one, as gdbm has it."""
        self._open()
        raw = key.encode() if isinstance(key, str) else bytes(key)
        for found, _ in self._tree.range(raw + b"\0"):
            return found
        return None

    def reorganize(self) -> None:
        """Nothing: space is given back by itself."""

    def sync(self) -> None:
        """Makes everything durable that was written so far."""
        self._open()
        self._db.sync()

    def close(self) -> None:
        """Closes the database. Twice is nothing."""
        self._db.close()

    def __enter__(self) -> _Dbm:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open(
    path: str | bytes | PathLike[str] | PathLike[bytes],
    flag: str = "r",
    mode: int = 0o666,
    *,
    memory: int | str = "64MiB",
) -> _Dbm:
    """Opens a database; `mode` means nothing, as the folder has the rights of the process."""
    name = os.fsdecode(path)
    if flag[:1] not in ("r", "w", "c", "n"):
        raise error(f"the flag is 'r', 'w', 'c' or 'n', not {flag!r}")
    there = whichdb(name) is not None
    if flag[0] in "rw" and not there:
        raise error(f"there is no database at {name}; open it with the flag 'c' to make one")
    if flag[0] in "cn" and os.path.isfile(name) and os.path.getsize(name) == 0:
        # What other modules of this kind leave of a database without records.
        os.remove(name)
    try:
        db = _for_reading(name, memory) if flag[0] == "r" else _database.open(name, memory=memory)
        try:
            if STRUCTURE not in db and (flag[0] == "r" or db.names()):
                raise error(f"the database at {name} is not one of this module: it has no structure {STRUCTURE!r}")
            if flag[0] == "n" and STRUCTURE in db:
                del db[STRUCTURE]
            return _Dbm(db, flag[0] != "r")
        except BaseException:
            db.close()
            raise
    except Error as failed:
        raise error(str(failed)) from failed


def _for_reading(name: str, memory: int | str) -> _database.Database:
    if _database.is_open(name):
        return _database.open(name, memory=memory)
    try:
        return _database.open(name, memory=memory, read_only=True)
    except NotClosed:
        # Whoever wrote it was killed: what the log has comes in first, which takes the right to write.
        _database.open(name, memory=memory, create=False).close()
        return _database.open(name, memory=memory, read_only=True)
