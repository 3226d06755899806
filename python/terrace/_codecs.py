"""Codecs: how keys and values of other types than bytes are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar, cast

from ._terrace import Hash, Lsm, Ordered, Tree

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Codec(Generic[K, V]):
    """Two pairs of functions: to bytes and back, for keys and for values.

    Keys of a tree are in the order of their bytes.
    """

    def __init__(
        self,
        key: tuple[Callable[[K], bytes], Callable[[bytes], K]],
        value: tuple[Callable[[V], bytes], Callable[[bytes], V]],
    ) -> None:
        self.key_in, self.key_out = key
        self.value_in, self.value_out = value


def _text_in(text: str) -> bytes:
    return text.encode()


def _text_out(raw: bytes) -> str:
    return raw.decode()


def _json_in(value: Any) -> bytes:
    import json as library

    return library.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _json_out(raw: bytes) -> Any:
    import json as library

    return library.loads(raw)


def pack_int(number: int) -> bytes:
    """A number of 64 bits with a sign as eight bytes, which compare as the numbers do."""
    # The sign turned over: as bytes they compare as the numbers do.
    return (number + (1 << 63)).to_bytes(8, "big")


def unpack_int(raw: bytes) -> int:
    """The number that `pack_int` or `Merge.add` made."""
    return int.from_bytes(raw, "big") - (1 << 63)


#: Keys and values are text.
text: Codec[str, str] = Codec((_text_in, _text_out), (_text_in, _text_out))

#: Keys are text, values whatever JSON can say.
json: Codec[str, Any] = Codec((_text_in, _text_out), (_json_in, _json_out))


def int_key(value: Codec[Any, V]) -> Codec[int, V]:
    """Keys are numbers of 64 bits with a sign, in their order; values are those of another codec."""
    return Codec((pack_int, unpack_int), (value.value_in, value.value_out))


class Coded(MutableMapping[K, V]):
    """A structure seen through a codec."""

    def __init__(self, raw: Tree | Lsm | Hash, codec: Codec[K, V]) -> None:
        self.raw = raw
        self.codec = codec

    def __repr__(self) -> str:
        return f"<coded {self.raw!r}>"

    def __getitem__(self, key: K) -> V:
        found = self.raw.get(self.codec.key_in(key))
        if found is None:
            raise KeyError(key)
        return self.codec.value_out(found)

    def __setitem__(self, key: K, value: V) -> None:
        self.raw.put(self.codec.key_in(key), self.codec.value_in(value))

    def __delitem__(self, key: K) -> None:
        if self.raw.remove(self.codec.key_in(key)) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self.codec.key_in(cast(K, key)) in self.raw

    def __iter__(self) -> Iterator[K]:
        return map(self.codec.key_out, self.raw)

    def __reversed__(self) -> Iterator[K]:
        return map(self.codec.key_out, reversed(self.raw))

    def __len__(self) -> int:
        return len(self.raw)

    def __bool__(self) -> bool:
        return bool(self.raw)

    def estimated_len(self) -> int:
        """About how many records there are."""
        return self.raw.estimated_len()

    def put(
        self, key: K, value: V, *, expire: float | None = None, sync: bool | None = None
    ) -> None:
        """Writes a record, whether or not the key is there; it is there for `expire` seconds, or for ever."""
        key_in, value_in = self.codec.key_in(key), self.codec.value_in(value)
        self.raw.put(key_in, value_in, expire=expire, sync=sync)

    def touch(self, key: K, expire: float | None = None, *, sync: bool | None = None) -> bool:
        """Has a record expire in so many seconds, or never; says whether it is there."""
        return self.raw.touch(self.codec.key_in(key), expire, sync=sync)

    def expires(self, key: K) -> float | None:
        """Until when a record is there, in seconds since 1970; None if it stays."""
        return self.raw.expires(self.codec.key_in(key))

    def delete(self, key: K, *, sync: bool | None = None) -> None:
        """Deletes a key, whether or not it is there."""
        self.raw.delete(self.codec.key_in(key), sync=sync)

    def insert(self, key: K, value: V) -> bool:
        """Writes a record if the key is not there, and says whether it did."""
        return self.raw.insert(self.codec.key_in(key), self.codec.value_in(value))

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """The values of many keys in one call."""
        found = self.raw.get_many([self.codec.key_in(key) for key in keys])
        return [None if value is None else self.codec.value_out(value) for value in found]

    def _decoded(self, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        return ((self.codec.key_out(key), self.codec.value_out(value)) for key, value in entries)

    def range(
        self, start: K | None = None, stop: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """The records with keys from `start` on and before `stop`, from either end."""
        if not isinstance(self.raw, Ordered):
            raise TypeError("a hash table keeps no order of keys")
        low = None if start is None else self.codec.key_in(start)
        high = None if stop is None else self.codec.key_in(stop)
        return self._decoded(self.raw.range(low, high, reverse=reverse))
