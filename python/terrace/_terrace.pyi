from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from types import TracebackType
from typing import Generic, Literal, TypeVar, final, overload

from typing_extensions import disjoint_base

_T = TypeVar("_T")
_O_co = TypeVar("_O_co", covariant=True)

# A key or a value: bytes, or text as UTF-8.
_Data = bytes | str | bytearray | memoryview
# Who hears how far work has come: what goes on, how much of it is done, how much there is.
_Progress = Callable[[str, int, int], object]

__version__: str
MAX_KEY_BYTES: int
MAX_VALUE_BYTES: int

def _forked() -> None: ...
def _restore_json(
    set: str | PathLike[str],
    to: str | PathLike[str],
    *,
    point: int | None = None,
    time: float | None = None,
    sequence: int | None = None,
    mark: str | None = None,
    structure: str | None = None,
    memory: int | str | None = None,
    verify: bool = True,
    cancel: Cancel | None = None,
    progress: _Progress | None = None,
) -> str: ...
def _list_backup_json(set: str | PathLike[str]) -> str: ...
def _verify_backup_json(set: str | PathLike[str], *, progress: _Progress | None = None) -> str: ...
@final
class Cancel:
    """Ends work that goes on elsewhere: `backup`, `compact`, `restore` take it."""

    def __new__(cls) -> Cancel: ...
    def cancel(self) -> None:
        """The work ends soon, with `Cancelled`."""
    @property
    def cancelled(self) -> bool: ...

@final
class Follower:
    def archive(self) -> int: ...
    def status_json(self) -> str: ...
    def stop(self) -> None: ...
    def __enter__(self) -> Follower: ...
    def __exit__(
        self,
        _raised: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
        /,
    ) -> bool: ...

@final
class Entries(Generic[_O_co]):
    def __iter__(self) -> Entries[_O_co]: ...
    def __next__(self) -> _O_co: ...

@final
class View(Generic[_O_co]):
    def __iter__(self) -> Entries[_O_co]: ...
    def __reversed__(self) -> Entries[_O_co]: ...
    def __contains__(self, wanted: object, /) -> bool: ...

@disjoint_base
class Map:
    """A structure of records by key, with the manners of a mapping."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __len__(self) -> int:
        """Raises TypeError: how many there are is not known exactly."""
    def __bool__(self) -> bool: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: _Data, /) -> bytes: ...
    def __setitem__(self, key: _Data, value: _Data, /) -> None: ...
    def __delitem__(self, key: _Data | slice[_Data | None, _Data | None, None], /) -> None: ...
    def __iter__(self) -> Entries[bytes]: ...
    def __reversed__(self) -> Entries[bytes]: ...
    def keys(self) -> View[bytes]: ...
    def values(self) -> View[bytes]: ...
    def items(self) -> View[tuple[bytes, bytes]]: ...
    # For event loops: None if a page is missing in memory; so many were brought in before.
    def _look(self, key: _Data, missed: int) -> bytes | Literal[False] | None: ...
    def _look_many(self, keys: Iterable[_Data], missed: int) -> list[bytes | Literal[False] | None]: ...
    def _has(self, key: _Data, missed: int) -> bool | None: ...
    def _when_resident(self, key: _Data, then: Callable[[], object]) -> bool: ...
    @overload
    def get(self, key: _Data, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: _Data, default: _T) -> bytes | _T: ...
    @overload
    def get_many(self, keys: Iterable[_Data], default: None = None) -> list[bytes | None]:
        """The values of many keys in one call."""
    @overload
    def get_many(self, keys: Iterable[_Data], default: _T) -> list[bytes | _T]: ...
    def put(
        self, key: _Data, value: _Data, *, expire: float | None = None, sync: bool | None = None
    ) -> None:
        """Writes a record, whether or not the key is there; with `sync` it is on the disk then.

        It is there for `expire` seconds, or for ever.
        """
    def touch(self, key: _Data, expire: float | None = None, *, sync: bool | None = None) -> bool:
        """Has a record expire in so many seconds, or never; says whether it is there."""
    def expires(self, key: _Data) -> float | None:
        """Until when a record is there, in seconds since 1970; None if it stays."""
    def delete(self, key: _Data, *, sync: bool | None = None) -> None:
        """Deletes a key, whether or not it is there."""
    def insert(self, key: _Data, value: _Data, *, sync: bool | None = None) -> bool:
        """Writes a record if the key is not there, and says whether it did."""
    def remove(self, key: _Data, *, sync: bool | None = None) -> bytes | None:
        """Deletes a key, and gives its value, if it was there."""
    def merge(self, key: _Data, merge: Merge, *, sync: bool | None = None) -> bool:
        """Changes a value by what is there, atomically; says whether it was changed."""
    @overload
    def pop(self, key: _Data, /) -> bytes: ...
    @overload
    def pop(self, key: _Data, default: _T, /) -> bytes | _T: ...
    def popitem(self) -> tuple[bytes, bytes]:
        """Takes out a record: that with the highest key, or any of a hash table."""
    def setdefault(self, key: _Data, default: _Data) -> bytes: ...
    @overload
    def update(
        self, key: _Data, change: Callable[[bytes | None], _Data | None], /, *, sync: bool | None = None
    ) -> bool:
        """Replaces a value by what `change` makes of it, atomically; says whether there was one.

        `change` gets the value, or None, and answers the new one, or None for none. It may be called again
        when another thread was faster. What it raises passes through, and nothing is written.
        """
    @overload
    def update(
        self,
        other: Mapping[str, _Data] | Mapping[bytes, _Data],
        /,
        *,
        sync: bool | None = None,
        **named: _Data,
    ) -> None: ...
    @overload
    def update(
        self, other: Iterable[tuple[_Data, _Data]], /, *, sync: bool | None = None, **named: _Data
    ) -> None: ...
    @overload
    def update(self, /, *, sync: bool | None = None, **named: _Data) -> None: ...
    def clear(self) -> None: ...
    def is_empty(self) -> bool: ...
    def estimated_len(self) -> int:
        """About how many records there are, from a sample."""
    def load(self, records: Iterable[tuple[_Data, _Data]]) -> int:
        """Sorts many records first and writes each page once; says how many there were."""

class Ordered(Map):
    """A structure whose records are in the order of their keys."""

    def range(
        self, start: _Data | None = None, stop: _Data | None = None, *, reverse: bool = False
    ) -> Entries[tuple[bytes, bytes]]:
        """The records with keys from `start` on and before `stop`, from either end."""
    def prefix(self, prefix: _Data, *, reverse: bool = False) -> Entries[tuple[bytes, bytes]]:
        """The records whose keys begin so."""
    def first(self) -> tuple[bytes, bytes] | None: ...
    def last(self) -> tuple[bytes, bytes] | None: ...
    def pop_first(self) -> tuple[bytes, bytes] | None:
        """Takes the record with the lowest key out: a queue."""
    def pop_last(self) -> tuple[bytes, bytes] | None:
        """Takes the record with the highest key out: a stack."""

@final
class Tree(Ordered):
    """An ordered map."""

@final
class Lsm(Ordered):
    """An ordered map whose cold records lie in levels of packed pages that are merged: for much writing."""

@final
class Hash(Map):
    """A map without order, which finds a record in fewer steps than a tree."""

@final
class Table(Ordered):
    """Rows by a primary key, with indexes that always agree with them."""

    def index(self, name: str) -> Index: ...
    def indexes(self) -> dict[str, str]: ...
    def create_index(self, name: str, source: str) -> None: ...
    def drop_index(self, name: str) -> None: ...

@final
class Index:
    """An index of a table, for reading: primary keys with their rows."""

    @property
    def name(self) -> str: ...
    @property
    def unique(self) -> bool: ...
    def get(self, key: _Data) -> Entries[tuple[bytes, bytes]]: ...
    def range(
        self, start: _Data | None = None, stop: _Data | None = None, *, reverse: bool = False
    ) -> Entries[tuple[bytes, bytes]]: ...
    def prefix(self, prefix: _Data, *, reverse: bool = False) -> Entries[tuple[bytes, bytes]]: ...
    def keys(
        self, start: _Data | None = None, stop: _Data | None = None, *, reverse: bool = False
    ) -> Entries[tuple[bytes, bytes]]: ...
    def __iter__(self) -> Entries[tuple[bytes, bytes]]: ...

@final
class Batch:
    """Changes that are made together when the block ends, all or none."""

    def put(self, map: Map, key: _Data, value: _Data, *, expire: float | None = None) -> None: ...
    def delete(self, map: Map, key: _Data) -> None: ...
    def merge(self, map: Map, key: _Data, merge: Merge) -> None: ...
    def write(self) -> None: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Batch: ...
    def __exit__(
        self,
        raised: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
        /,
    ) -> bool: ...

@final
class Merge:
    """What becomes of a value, given the one that is there."""

    @staticmethod
    def add(number: int) -> Merge:
        """Adds to a number of eight bytes as `pack_int` makes them; none counts as 0."""
    @staticmethod
    def min(value: _Data) -> Merge:
        """Keeps the lower one of the two, as bytes compare."""
    @staticmethod
    def max(value: _Data) -> Merge:
        """Keeps the higher one of the two, as bytes compare."""
    @staticmethod
    def append(value: _Data, *, limit: int = ...) -> Merge:
        """Appends bytes; more than `limit` in all are an error."""
    @staticmethod
    def set_if_absent(value: _Data) -> Merge:
        """Stores a value if there is none."""
    @staticmethod
    def compare_and_set(expected: _Data | None, new: _Data | None) -> Merge:
        """Stores a value, or removes it (None), if the one that is there is this one (None for none)."""

@disjoint_base
class Reader:
    """Reads of one instant: what `Database.read` gives to its function."""

    @overload
    def get(self, map: Map, key: _Data, default: None = None) -> bytes | None: ...
    @overload
    def get(self, map: Map, key: _Data, default: _T) -> bytes | _T: ...
    @overload
    def get_many(self, map: Map, keys: Iterable[_Data], default: None = None) -> list[bytes | None]: ...
    @overload
    def get_many(self, map: Map, keys: Iterable[_Data], default: _T) -> list[bytes | _T]: ...
    @overload
    def get_unchecked(self, map: Map, key: _Data, default: None = None) -> bytes | None:
        """Reads without looking at the commit whether it is still so: for hints."""
    @overload
    def get_unchecked(self, map: Map, key: _Data, default: _T) -> bytes | _T: ...
    def contains(self, map: Map, key: _Data) -> bool: ...
    def range(
        self, map: Map, start: _Data | None = None, stop: _Data | None = None, *, reverse: bool = False
    ) -> Entries[tuple[bytes, bytes]]:
        """The records with keys from `start` on and before `stop`, all of which count as read."""
    def prefix(self, map: Map, prefix: _Data, *, reverse: bool = False) -> Entries[tuple[bytes, bytes]]: ...
    def items(self, map: Map, *, reverse: bool = False) -> Entries[tuple[bytes, bytes]]:
        """All records; those of a hash table are read at once."""
    def index_get(self, table: Map, index: str, key: _Data) -> Entries[tuple[bytes, bytes]]:
        """Primary keys and rows with one key of an index, read at once."""
    def index_range(
        self,
        table: Map,
        index: str,
        start: _Data | None = None,
        stop: _Data | None = None,
        *,
        reverse: bool = False,
    ) -> Entries[tuple[bytes, bytes]]:
        """Primary keys and rows by an index, read at once."""

@final
class Savepoint:
    """A place in a transaction to go back to."""

@final
class Transaction(Reader):
    """Reads and writes that happen at one instant, or not at all. It sees its own changes."""

    def put(self, map: Map, key: _Data, value: _Data, *, expire: float | None = None) -> None: ...
    def touch(self, map: Map, key: _Data, expire: float | None = None) -> bool:
        """Has a record expire in so many seconds, or never; says whether it is there."""
    def delete(self, map: Map, key: _Data) -> None: ...
    def insert(self, map: Map, key: _Data, value: _Data) -> bool:
        """Writes a record if the key is not there, and says whether it did."""
    def remove(self, map: Map, key: _Data) -> bytes | None:
        """Deletes a key, and gives its value, if it was there."""
    def update(self, map: Map, key: _Data, change: Callable[[bytes | None], _Data | None]) -> bool:
        """Replaces a value by what `change` makes of it, None for none; says whether there was one."""
    def merge(self, map: Map, key: _Data, merge: Merge) -> None:
        """Changes a value by what is there at the commit, which does not count as reading it."""
    def pop_first(self, map: Map) -> tuple[bytes, bytes] | None:
        """Takes the record with the lowest key out: a queue. Others who do so wait until this has ended."""
    def pop_last(self, map: Map) -> tuple[bytes, bytes] | None:
        """Takes the record with the highest key out: a stack."""
    def savepoint(self) -> Savepoint: ...
    def rollback_to(self, savepoint: Savepoint) -> None:
        """Takes back the changes made since."""
    def commit(self) -> int | None:
        """Commits one of `begin`: raises `Conflict`, and nothing was changed, if what it has read has changed.

        Answers its place in the order of commits, if it has one.
        """
    def abort(self) -> None:
        """Ends one of `begin`; nothing of it is done."""
    def __enter__(self) -> Transaction: ...
    def __exit__(
        self,
        raised: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
        /,
    ) -> bool: ...

@final
class SnapshotMap:
    """A structure of a snapshot, with the manners of a mapping that nobody changes."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    def __len__(self) -> int:
        """Raises TypeError: how many there are is not known exactly."""
    def __bool__(self) -> bool: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: _Data, /) -> bytes: ...
    def __iter__(self) -> Entries[bytes]: ...
    def __reversed__(self) -> Entries[bytes]: ...
    def keys(self) -> View[bytes]: ...
    def values(self) -> View[bytes]: ...
    def items(self) -> View[tuple[bytes, bytes]]: ...
    @overload
    def get(self, key: _Data, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: _Data, default: _T) -> bytes | _T: ...
    @overload
    def get_many(self, keys: Iterable[_Data], default: None = None) -> list[bytes | None]: ...
    @overload
    def get_many(self, keys: Iterable[_Data], default: _T) -> list[bytes | _T]: ...
    def range(
        self, start: _Data | None = None, stop: _Data | None = None, *, reverse: bool = False
    ) -> Entries[tuple[bytes, bytes]]: ...
    def prefix(self, prefix: _Data, *, reverse: bool = False) -> Entries[tuple[bytes, bytes]]: ...
    def is_empty(self) -> bool: ...
    def estimated_len(self) -> int: ...
    def index(self, name: str) -> Index: ...
    def indexes(self) -> dict[str, str]: ...

@final
class Snapshot:
    """Everything as it was at one instant. Close it: what it keeps takes space on the disk."""

    @property
    def time(self) -> float:
        """The instant that it shows, as `time.time()` says it."""
    @property
    def sequence(self) -> int:
        """The number of the last logged change that it has."""
    @property
    def closed(self) -> bool: ...
    def names(self) -> list[str]: ...
    def __getitem__(self, name: str, /) -> SnapshotMap: ...
    def __contains__(self, name: str, /) -> bool: ...
    def verify(self) -> list[str]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Snapshot: ...
    def __exit__(
        self,
        _raised: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Change:
    @property
    def op(self) -> Literal["put", "delete", "created", "dropped", "renamed", "marked", "other"]: ...
    @property
    def structure(self) -> str | None: ...
    @property
    def id(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def expires(self) -> float | None: ...
    @property
    def mark(self) -> str | None: ...
    @property
    def time(self) -> float | None: ...

@final
class Commit:
    @property
    def sequence(self) -> int: ...
    @property
    def place(self) -> str: ...
    @property
    def changes(self) -> list[Change]: ...

@final
class Changes:
    def __iter__(self) -> Changes: ...
    def __next__(self) -> Commit: ...
    @property
    def place(self) -> str: ...

@disjoint_base
class Database:
    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        memory: int | str | None = None,
        create: bool = True,
        durability: str = "buffered",
        page_size: int | str | None = None,
        log_limit: int | str | None = None,
        direct_io: bool = True,
        control: bool = False,
        read_only: bool = False,
        keep_changes: int | str | None = None,
    ) -> Database: ...
    @property
    def path(self) -> PathLike[str]: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def tree(
        self,
        name: str,
        *,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Tree: ...
    def lsm(
        self,
        name: str,
        *,
        compression: str | int | None = None,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Lsm: ...
    def hash(
        self,
        name: str,
        *,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Hash: ...
    def table(
        self,
        name: str,
        *,
        indexes: dict[str, str] | None = None,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Table: ...
    def __getitem__(self, name: str, /) -> Tree | Lsm | Hash | Table: ...
    def __delitem__(self, name: str, /) -> None: ...
    def __contains__(self, name: str, /) -> bool: ...
    def names(self) -> list[str]: ...
    def rename(self, old: str, new: str) -> None: ...
    def drop(self, name: str) -> None: ...
    def batch(self, *, sync: bool | None = None) -> Batch: ...
    def transaction(
        self,
        call: Callable[[Transaction], _T],
        *,
        sync: bool | None = None,
        attempts: int = 100,
        label: str | None = None,
    ) -> _T: ...
    def read(self, call: Callable[[Reader], _T], *, attempts: int = 100, label: str | None = None) -> _T: ...
    def begin(self, *, sync: bool | None = None, label: str | None = None) -> Transaction: ...
    def snapshot(self, *, max_age: float | None = None) -> Snapshot: ...
    def changes(
        self, *, place: str | None = None, until_now: bool = False, snapshot: bool = False
    ) -> tuple[Changes, Snapshot | None]: ...
    def backup_json(
        self,
        set: str | PathLike[str],
        *,
        full: bool = False,
        mark: str | None = None,
        rate: int | str | None = None,
        cancel: Cancel | None = None,
        progress: _Progress | None = None,
    ) -> str: ...
    def compact_json(
        self,
        *,
        fill: float | None = None,
        rate: int | str | None = None,
        cancel: Cancel | None = None,
        progress: _Progress | None = None,
    ) -> str: ...
    def follow(
        self,
        set: str | PathLike[str],
        *,
        every: float | None = None,
        point_after: int | str | None = None,
        rate: int | str | None = None,
    ) -> Follower: ...
    def mark_json(self, name: str) -> str: ...
    def sync(self) -> None: ...
    def checkpoint(self) -> None: ...
    def verify(self) -> list[str]: ...
    def stats_json(self, *, survey: bool = False) -> str: ...
    def stats_text(self) -> str: ...
    def metrics(self, *, openmetrics: bool = False, survey: bool = False) -> str: ...
