"""Terrace: an embedded, durable key-value engine for data larger than memory whose accesses are skewed.

    >>> import terrace, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with terrace.open(folder, memory="16MiB") as db:
    ...     users = db.tree("users")
    ...     users["alice"] = "Berlin"
    ...     users["alice"]
    b'Berlin'

You give it one number, the memory it may use, and it keeps the records that you use in that memory, not the
pages that they happen to lie on. Keys and values are bytes; text goes in as UTF-8 and comes out as bytes,
unless a structure is opened with a codec.
"""

from __future__ import annotations

from ._database import Database, Figures, list_backup, open, restore, verify_backup
from ._errors import (
    Cancelled,
    ChangesGone,
    Closed,
    Conflict,
    Corrupt,
    Defect,
    DiskFull,
    Duplicate,
    Error,
    Forked,
    Invalid,
    Io,
    KeyTooLong,
    Locked,
    MemoryTooSmall,
    NoSuchStructure,
    NotClosed,
    Poisoned,
    PowerLost,
    SnapshotGone,
    StructureExists,
    ValueTooLong,
)
from ._shelve import shelve
from ._terrace import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    Batch,
    Change,
    Changes,
    Commit,
    Entries,
    Hash,
    Index,
    Lsm,
    Map,
    Merge,
    Ordered,
    Reader,
    Savepoint,
    Snapshot,
    SnapshotMap,
    Table,
    Transaction,
    Tree,
    View,
    __version__,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._codecs import Coded, Codec, int_key, json, pack_int, text, unpack_int

_OF_CODECS = ("Coded", "Codec", "int_key", "json", "pack_int", "text", "unpack_int")


def __getattr__(name: str) -> object:
    # What few need is loaded when it is asked for.
    if name in _OF_CODECS:
        from . import _codecs

        globals().update({each: getattr(_codecs, each) for each in _OF_CODECS})
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "MAX_KEY_BYTES",
    "MAX_VALUE_BYTES",
    "Batch",
    "Cancelled",
    "Change",
    "Changes",
    "ChangesGone",
    "Closed",
    "Coded",
    "Codec",
    "Commit",
    "Conflict",
    "Corrupt",
    "Database",
    "Defect",
    "DiskFull",
    "Duplicate",
    "Entries",
    "Error",
    "Figures",
    "Forked",
    "Hash",
    "Index",
    "Invalid",
    "Io",
    "KeyTooLong",
    "Locked",
    "Lsm",
    "Map",
    "MemoryTooSmall",
    "Merge",
    "NoSuchStructure",
    "NotClosed",
    "Ordered",
    "Poisoned",
    "PowerLost",
    "Reader",
    "Savepoint",
    "Snapshot",
    "SnapshotGone",
    "SnapshotMap",
    "StructureExists",
    "Table",
    "Transaction",
    "Tree",
    "ValueTooLong",
    "View",
    "__version__",
    "int_key",
    "json",
    "list_backup",
    "open",
    "pack_int",
    "restore",
    "shelve",
    "text",
    "unpack_int",
    "verify_backup",
]
