"""The database: one for each folder and process, with as many handles as one likes."""

from __future__ import annotations

import atexit
import os
import weakref

# Loaded by the interpreter already, as `collections.abc` and `threading` are not: importing the package takes
# milliseconds.
from _collections_abc import Mapping, MutableMapping
from _thread import allocate_lock
from os import fsdecode
from types import SimpleNamespace

from . import _terrace
from ._errors import Closed, Forked, Invalid
from ._terrace import Map, SnapshotMap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from os import PathLike
    from types import TracebackType
    from typing import Any, Literal, TypeVar, overload

    from ._codecs import Coded, Codec
    from ._terrace import Batch, Cancel, Changes, Hash, Lsm, Reader, Snapshot, Table, Transaction, Tree

    K = TypeVar("K")
    V = TypeVar("V")
    T = TypeVar("T")

    # A folder, as the functions of `os` take it.
    Folder = str | bytes | PathLike[str] | PathLike[bytes]
    # Who hears how far work has come: what goes on, how much of it is done, how much there is.
    Progress = Callable[[str, int, int], object]
else:
    # As above: `collections` is not loaded by the interpreter.
    from _collections import deque

    def overload(function):
        return function


Mapping.register(SnapshotMap)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
# Structures answer as mappings do, but for len(), which says why it cannot.
MutableMapping.register(Map)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]

#: What `open` takes besides the path.
OPTIONS = ("memory", "create", "durability", "page_size", "log_limit", "direct_io", "control", "read_only", "keep_changes")


class _Opened:
    """A database that is open in this process, and how many handles it has."""

    def __init__(self, native: _terrace.Database, options: dict[str, Any]) -> None:
        self.native = native
        self.options = options
        self.handles = 0


class _Counting:
    """Who changes how many handles there are, one at a time; with those that were lost meanwhile.

    A handle may be lost at any point of any thread, also of one that is in here, so `__del__` waits for nobody: it leaves
    its handle in `lost`, and whoever is or comes in next counts it.
    """

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.lost: deque[tuple[_Opened, str]] = deque()

    def __enter__(self) -> None:
        self.lock.acquire()
        self.count()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        self.settle()

    def count(self) -> None:
        while self.lost:
            opened, key = self.lost.popleft()
            opened.handles -= 1
            if opened.handles == 0 and _opened.get(key) is opened:
                del _opened[key]

    def settle(self) -> None:
        while self.lost and self.lock.acquire(False):
            try:
                self.count()
            finally:
                self.lock.release()


_counting = _Counting()
_opened: dict[str, _Opened] = {}
_handles: weakref.WeakSet[Database] = weakref.WeakSet()


def _after_fork() -> None:
    global _counting
    _terrace._forked()
    _counting = _Counting()
    _opened.clear()


def _at_exit() -> None:
    # Before the interpreter takes modules apart.
    for handle in list(_handles):
        try:
            handle.close()
        except Forked:
            pass


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


class Figures(SimpleNamespace):
    """Figures of a database, as attributes: `db.stats().memory.limit`."""

    _json: str

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no figure {name!r}; there are {', '.join(vars(self))}")

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary."""
        import json

        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_json(self) -> str:
        """The same as JSON."""
        import json

        return json.dumps(self, default=vars)


def _coded(raw: Tree | Lsm | Hash, codec: Codec[K, V]) -> Coded[K, V]:
    from ._codecs import Coded

    return Coded(raw, codec)


def _figures(text: str) -> Figures:
    import json

    figures: Figures = json.loads(text, object_hook=lambda fields: Figures(**fields))
    return figures


def _timed(point: Figures) -> Figures:
    # As time.time() says it.
    point.time = point.time.secs_since_epoch + point.time.nanos_since_epoch / 1e9
    return point


def _seconds(time: float | datetime | None) -> float | None:
    return time if time is None or isinstance(time, int | float) else time.timestamp()


def restore(
    set: Folder,
    to: Folder,
    *,
    point: int | None = None,
    time: float | datetime | None = None,
    sequence: int | None = None,
    mark: str | None = None,
    structure: str | None = None,
    memory: int | str | None = None,
    verify: bool = True,
    cancel: Cancel | None = None,
    progress: Progress | None = None,
) -> Figures:
    """Makes a new database, in a folder that is not there, of a state of a backup set: by default the newest.

    That is one of its points; or, where the log was followed, how it was at a `time` (seconds since 1970, or a
    datetime), after the change of a `sequence`, or at the newest `mark` of a name. With `structure` only that one.
    `memory` is for the verification afterwards. `cancel` ends it from another thread; `progress` is called with
    what goes on, how much of it is done and how much there is.
    """
    made = _figures(
        _terrace._restore_json(
            fsdecode(set),
            fsdecode(to),
            point=point,
            time=_seconds(time),
            sequence=sequence,
            mark=mark,
            structure=structure,
            memory=memory,
            verify=verify,
            cancel=cancel,
            progress=progress,
        )
    )
    _timed(made.point)
    return made


def list_backup(set: Folder) -> list[Figures]:
    """The points of a backup set, the oldest first."""
    import json

    points: list[Figures] = json.loads(
        _terrace._list_backup_json(fsdecode(set)), object_hook=lambda fields: Figures(**fields)
    )
    return [_timed(point) for point in points]


def verify_backup(set: Folder, *, progress: Progress | None = None) -> Figures:
    """Reads a backup set and checks every page: which points are whole, and what is wrong in `problems`."""
    return _figures(_terrace._verify_backup_json(fsdecode(set), progress=progress))


class Follower:
    """Copies the log of a database to a backup set, until it is stopped or the database is closed.

    Usable as a context manager; forgotten, it goes on until the database is closed.
    """

    def __init__(self, native: _terrace.Follower) -> None:
        self._native = native

    def archive(self) -> int:
        """Copies all that was written so far, now; the number of the last change that the set has."""
        return self._native.archive()

    def status(self) -> Figures:
        """How far it has come: `sequence`, `log_bytes`, `breaks`, and in `error` why the last attempt failed."""
        return _figures(self._native.status_json())

    def stop(self) -> None:
        """Copies all that was written so far, and ends it. Twice is nothing."""
        self._native.stop()

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class Database:
    """An open database. Usable as a context manager, from any number of threads."""

    def __init__(self, opened: _Opened, key: str) -> None:
        self._opened: _Opened | None = opened
        self._key = key
        self._path = opened.native.path
        _handles.add(self)

    @property
    def _native(self) -> _terrace.Database:
        opened = self._opened
        if opened is None:
            raise Closed("the database is closed; open it again")
        return opened.native

    @property
    def path(self) -> PathLike[str]:
        """The folder."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether this handle was closed."""
        return self._opened is None

    def close(self) -> None:
        """Closes this handle, and with the last one the database, with a checkpoint. Twice is nothing.

        Then structures of it answer with `Closed`.
        """
        with _counting:
            opened, self._opened = self._opened, None
            if opened is None:
                return
            opened.handles -= 1
            if opened.handles > 0:
                return
            if _opened.get(self._key) is opened:
                del _opened[self._key]
            # Under the lock, so that whoever opens it again finds the folder free.
            opened.native.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Structures keep the database open; with the last of them it closes itself.
        opened: _Opened | None = getattr(self, "_opened", None)
        if opened is not None:
            _counting.lost.append((opened, self._key))
            del opened
            _counting.settle()

    def __copy__(self) -> Database:
        # A handle of its own, which is closed by itself.
        with _counting:
            opened = self._opened
            if opened is None:
                raise Closed("the database is closed; open it again")
            opened.handles += 1
            return Database(opened, self._key)

    def __deepcopy__(self, _known: object) -> Database:
        return self.__copy__()

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<terrace.Database {str(self._path)!r}{closed}>"

    @overload
    def tree(
        self,
        name: str,
        *,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Tree: ...

    @overload
    def tree(
        self,
        name: str,
        *,
        codec: Codec[K, V],
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Coded[K, V]: ...

    def tree(self, name: str, *, codec: Codec[Any, Any] | None = None, **options: Any) -> Any:
        """The tree of this name, made if there is none: an ordered map."""
        tree = self._native.tree(name, **options)
        return tree if codec is None else _coded(tree, codec)

    @overload
    def lsm(
        self,
        name: str,
        *,
        compression: Literal["none", "lz4"] | int | None = None,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Lsm: ...

    @overload
    def lsm(
        self,
        name: str,
        *,
        codec: Codec[K, V],
        compression: Literal["none", "lz4"] | int | None = None,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Coded[K, V]: ...

    def lsm(self, name: str, *, codec: Codec[Any, Any] | None = None, **options: Any) -> Any:
        """The LSM-tree of this name, made if there is none: an ordered map for much writing.

        With `compression="lz4"` its last level is compressed, where most of what there is lies; with a number so
        many levels, counted from the last one.
        """
        lsm = self._native.lsm(name, **options)
        return lsm if codec is None else _coded(lsm, codec)

    @overload
    def hash(
        self,
        name: str,
        *,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Hash: ...

    @overload
    def hash(
        self,
        name: str,
        *,
        codec: Codec[K, V],
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Coded[K, V]: ...

    def hash(self, name: str, *, codec: Codec[Any, Any] | None = None, **options: Any) -> Any:
        """The hash table of this name, made if there is none: a map without order."""
        hash_ = self._native.hash(name, **options)
        return hash_ if codec is None else _coded(hash_, codec)

    def table(
        self,
        name: str,
        *,
        indexes: dict[str, str] | None = None,
        tiers: Literal[1, 2] | None = None,
        inclusive: bool | None = None,
        logged: bool | None = None,
        expiring: bool = False,
    ) -> Table:
        """The table of this name, made with its indexes if there is none.

        Indexes are names with sources: `{"city": "json:/city", "badge": "unique:json:/badge"}`, `csv:COLUMN`,
        `bytes:FROM..TO`. A table that is there must have the same ones, if any are said.
        """
        return self._native.table(
            name,
            indexes=indexes,
            tiers=tiers,
            inclusive=inclusive,
            logged=logged,
            expiring=expiring,
        )

    def __getitem__(self, name: str) -> Tree | Lsm | Hash | Table:
        """A structure that is there, of whatever kind."""
        return self._native[name]

    def __delitem__(self, name: str) -> None:
        """Drops a structure with all its records."""
        del self._native[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._native

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.names())

    def names(self) -> list[str]:
        """The names of the structures."""
        return self._native.names()

    def rename(self, old: str, new: str) -> None:
        """Gives a structure another name."""
        self._native.rename(old, new)

    def batch(self, *, sync: bool | None = None) -> Batch:
        """Changes that are made together when the block ends, all or none; with `sync` on the disk then."""
        return self._native.batch(sync=sync)

    def transaction(
        self,
        call: Callable[[Transaction], T],
        *,
        sync: bool | None = None,
        attempts: int = 100,
        label: str | None = None,
    ) -> T:
        """Runs `call` with a transaction and commits: all of it happens at one instant, or nothing.

        When others have changed meanwhile what it has read, `call` runs again, so it must not do what cannot
        be done twice; after so many `attempts` it is a `Conflict`. After eight it takes its turn, and writers of
        what it reads wait, a second at most. What it raises passes through, and nothing is changed; what is no
        `Exception`, as `KeyboardInterrupt`, ends it in any case. With `sync` it is on the disk then. `label` names it in the figures of conflicts.
        """
        return self._native.transaction(call, sync=sync, attempts=attempts, label=label)

    def read(self, call: Callable[[Reader], T], *, attempts: int = 100, label: str | None = None) -> T:
        """Runs `call` with something to read by: all that it reads is of one instant. For short reads.

        It runs again when something that it has read changes meanwhile; for long reads take a snapshot.
        """
        return self._native.read(call, attempts=attempts, label=label)

    def begin(self, *, sync: bool | None = None, label: str | None = None) -> Transaction:
        """A transaction that commits when its block ends, or by hand, and is not run again: see `Conflict`."""
        return self._native.begin(sync=sync, label=label)

    def snapshot(self, *, max_age: float | None = None) -> Snapshot:
        """Everything as it is now, for reading as long as one likes; or as it was `max_age` seconds ago at most.

        It costs what a checkpoint costs, unless one that was made lately will do.
        """
        return self._native.snapshot(max_age=max_age)

    def changes(self, place: str | None = None, *, until_now: bool = False) -> Changes:
        """Every commit, each once, in order, and none that a power cut could take back: from behind a `place` on
        that an earlier commit had, or from now on. It waits for more, unless it ends with what there is now.

        `ChangesGone` if the log is not there any more from that place on: open with `keep_changes`, or begin
        anew with `changes_and_snapshot`.
        """
        return self._native.changes(place=place, until_now=until_now)[0]

    def changes_and_snapshot(self) -> tuple[Changes, Snapshot]:
        """Every commit from now on, and everything as it is now: no commit is in both, none in neither."""
        changes, snapshot = self._native.changes(snapshot=True)
        assert snapshot is not None
        return changes, snapshot

    def backup(
        self,
        set: Folder,
        *,
        full: bool = False,
        mark: str | None = None,
        rate: int | str | None = None,
        cancel: Cancel | None = None,
        progress: Progress | None = None,
    ) -> Figures:
        """Adds a point to the backup set in a folder, while others write, and says what that came to.

        What the set has already is not stored again, unless it is to be `full`; a `mark` names the point. The
        rate is "gentle", "fast", or bytes a second: `"64MiB"`. `cancel` ends it from another thread; `progress`
        is called with what goes on, how much of it is done and how much there is.
        """
        made = self._native.backup_json(
            fsdecode(set), full=full, mark=mark, rate=rate, cancel=cancel, progress=progress
        )
        return _timed(_figures(made))

    def compact(
        self,
        *,
        fill: float | None = None,
        rate: int | str | None = None,
        cancel: Cancel | None = None,
        progress: Progress | None = None,
    ) -> Figures:
        """Fills the pages and shortens the file, while others read and write, and says what that came to.

        Pages are to be full to a part of `fill`, 0.95 unless said otherwise. For the others see `backup`.
        """
        return _figures(
            self._native.compact_json(fill=fill, rate=rate, cancel=cancel, progress=progress)
        )

    def follow(
        self,
        set: Folder,
        *,
        every: float | None = None,
        point_after: int | str | None = None,
        rate: int | str | None = None,
    ) -> Follower:
        """Copies the log to the backup set in a folder from now on, so that a restore can go back to any change.

        It makes a point first, if the set needs one. What was written is copied `every` so many seconds, one
        unless said otherwise; after `point_after` bytes of log there is another point.
        """
        return Follower(
            self._native.follow(fsdecode(set), every=every, point_after=point_after, rate=rate)
        )

    def mark(self, name: str) -> Figures:
        """Names this instant, durably: `restore(..., mark=name)` goes back to it, where the log was followed."""
        return _timed(_figures(self._native.mark_json(name)))

    def sync(self) -> None:
        """Makes everything durable that was written so far."""
        self._native.sync()

    def checkpoint(self) -> None:
        """Makes a checkpoint: the next opening has nothing to replay."""
        self._native.checkpoint()

    def verify(self) -> list[str]:
        """Reads everything and checks every invariant: what is wrong, one line each. Other calls wait."""
        return self._native.verify()

    def stats(self, *, survey: bool = False) -> Figures:
        """The figures; with `survey` also about how many records there are, for which it reads some pages."""
        return _figures(self._native.stats_json(survey=survey))

    def describe(self) -> str:
        """The figures of a survey as a table for people."""
        return self._native.stats_text()

    def metrics(self, *, openmetrics: bool = False, survey: bool = False) -> str:
        """The figures as Prometheus text, or as OpenMetrics."""
        return self._native.metrics(openmetrics=openmetrics, survey=survey)


def open(
    path: Folder,
    *,
    memory: int | str | None = None,
    create: bool = True,
    durability: Literal["buffered", "sync"] = "buffered",
    page_size: int | str | None = None,
    log_limit: int | str | None = None,
    direct_io: bool = True,
    control: bool = False,
    read_only: bool = False,
    keep_changes: int | str = 0,
    **unknown: object,
) -> Database:
    """Opens the database in a folder, and makes both if they are missing.

    `memory` is for everything that the database keeps, as a number of bytes or as text: "256MiB". With
    `control`, other processes of the same user can ask for figures with `terrace stat` and `terrace top`.
    With `durability="sync"` every write is on the disk when it returns, unless it says `sync=False`. With
    `read_only` nothing is written, and others may read beside it; it is `NotClosed` if the log has to be
    replayed first.
    `keep_changes` is how much of the log stays for who reads the changes later.
    Opened twice in one process it is one database, which is closed with its last handle. A handle that is
    forgotten without `close` lets its structures go on.
    """
    for name in unknown:
        # Modules that few need are loaded when they are: importing the package takes milliseconds.
        import difflib

        near = difflib.get_close_matches(name, OPTIONS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(OPTIONS)}"
        raise TypeError(f"open() has no option {name!r}{hint}")
    options: dict[str, Any] = {
        "memory": memory,
        "create": create,
        "durability": durability,
        "page_size": page_size,
        "log_limit": log_limit,
        "direct_io": direct_io,
        "control": control,
        "read_only": read_only,
        "keep_changes": keep_changes,
    }
    path = fsdecode(path)
    with _counting:
        key = os.path.realpath(path)
        opened = _opened.get(key)
        if opened is None:
            opened = _Opened(_terrace.Database(path, **options), options)
            _opened[os.path.realpath(path)] = opened
        else:
            differ = [name for name in OPTIONS if name != "create" and opened.options[name] != options[name]]
            if differ:
                raise Invalid(
                    f"{path} is open in this process with another {differ[0]}: "
                    f"{opened.options[differ[0]]!r}; open it with the same options, or close it first"
                )
        opened.handles += 1
        return Database(opened, key)


def is_open(path: Folder) -> bool:
    """Whether this process has the database in a folder open for writing."""
    with _counting:
        opened = _opened.get(os.path.realpath(fsdecode(path)))
        return opened is not None and not opened.options["read_only"]
