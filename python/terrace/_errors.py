"""The exceptions. Each kind of error of the engine has a class; texts are the engine's own."""

from __future__ import annotations

# Said here, not imported: `typing` takes longer to load than all of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


class Error(Exception):
    """Whatever Terrace raises that Python has no better name for."""

    kind: ClassVar[str] = "error"


class Corrupt(Error):
    """A file holds something that Terrace did not write, or not in this place."""

    kind = "corrupt"


class Io(Error, OSError):
    """The operating system refused or failed an operation; `errno` says how."""

    kind = "io"


class DiskFull(Error, OSError):
    """No space left. Nothing was changed."""

    kind = "disk_full"


class Poisoned(Error):
    """An earlier failure leaves it unknown what is on disk; close and open again."""

    kind = "poisoned"


class MemoryTooSmall(Error, ValueError):
    """The memory limit does not suffice for what is opened."""

    kind = "memory_too_small"


class KeyTooLong(Error, ValueError):
    """A key is longer than `MAX_KEY_BYTES`."""

    kind = "key_too_long"


class ValueTooLong(Error, ValueError):
    """A value is longer than `MAX_VALUE_BYTES`."""

    kind = "value_too_long"


class Locked(Error, BlockingIOError):
    """Another process has the database open."""

    kind = "locked"


class NoSuchStructure(Error, LookupError):
    """There is no structure of this name."""

    kind = "no_such_structure"


class StructureExists(Error):
    """There is a structure of this name already."""

    kind = "structure_exists"


class Duplicate(Error):
    """Two rows would have the same key in a unique index. Nothing was changed."""

    kind = "duplicate"


class SnapshotGone(Error):
    """A snapshot was given up: the space that it kept was needed. Take another one."""

    kind = "snapshot_gone"


class ChangesGone(Error):
    """The log no longer has the changes from that place on. Begin anew with a snapshot."""

    kind = "changes_gone"


class Cancelled(Error):
    """Somebody asked for the end of it."""

    kind = "cancelled"


class PowerLost(Error):
    """The power went while a map without power-fail protection was open; nothing in its file is believed."""

    kind = "power_lost"


class NotClosed(Error):
    """The database was not closed, so its log has to be replayed by somebody who may write."""

    kind = "not_closed"


class Conflict(Error):
    """Others kept changing what a transaction or a batch with merges rests on. Nothing was changed."""

    kind = "conflict"


class Invalid(Error, ValueError):
    """The arguments do not fit."""

    kind = "invalid"


class Closed(Error, ValueError):
    """The database was closed."""

    kind = "closed"


class Forked(Error):
    """The database was opened before a fork, and this is the child."""

    kind = "forked"


class Defect(Error):
    """A defect of Terrace."""

    kind = "defect"


BY_KIND: dict[str, type[Error]] = {
    error.kind: error
    for error in (
        Corrupt,
        Io,
        DiskFull,
        Poisoned,
        MemoryTooSmall,
        KeyTooLong,
        ValueTooLong,
        Locked,
        NoSuchStructure,
        StructureExists,
        Duplicate,
        SnapshotGone,
        ChangesGone,
        Cancelled,
        PowerLost,
        NotClosed,
        Conflict,
        Invalid,
        Closed,
        Forked,
        Defect,
    )
}
