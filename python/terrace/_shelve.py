"""A shelf of Python objects over a structure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import shelve as _shelve
    from typing import Any

    from ._terrace import Map


def shelve(
    structure: Map, *, protocol: int | None = None, writeback: bool = False, keyencoding: str = "utf-8"
) -> _shelve.Shelf[Any]:
    """A `shelve.Shelf` over a structure: values are pickled objects, keys text.

    Pickle runs what it reads: never open a shelf of files that you do not trust, or use the codec
    `terrace.json` instead, which only reads data. That is why no structure pickles by itself.
    """
    import shelve as library
    from typing import cast

    return library.Shelf(cast("Any", structure), protocol, writeback, keyencoding)
