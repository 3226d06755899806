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

from ._codecs import Coded, Codec, int_key, json, text
from ._database import Database, Figures, open
from ._errors import (
    Cancelled,
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
    Entries,
    Hash,
    Index,
    Map,
    Ordered,
    Table,
    Tree,
    View,
    __version__,
)

__all__ = [
    "MAX_KEY_BYTES",
    "MAX_VALUE_BYTES",
    "Batch",
    "Cancelled",
    "Closed",
    "Coded",
    "Codec",
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
    "Map",
    "MemoryTooSmall",
    "NoSuchStructure",
    "NotClosed",
    "Ordered",
    "Poisoned",
    "PowerLost",
    "SnapshotGone",
    "StructureExists",
    "Table",
    "Tree",
    "ValueTooLong",
    "View",
    "__version__",
    "int_key",
    "json",
    "open",
    "shelve",
    "text",
]
