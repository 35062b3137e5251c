"""Values as PostgreSQL sends them over the wire. The driver's own way costs several times as much for many rows."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from agent_fabric.infrastructure.persistence.sql import storable

_HEAD: Final = Struct("!iiIii")
"""Dimensions, whether there are NULLs, type of the elements, how many, number of the first."""
_BIGINT: Final = Struct("!iq")
_FLOAT8: Final = Struct("!id")
_LENGTH: Final = Struct("!i")
_NULL: Final = _LENGTH.pack(-1)
MAX_NAME: Final = 64
"""Longer texts are no names."""


class ScalarType(NamedTuple):
    """A type of single values."""

    oid: int
    """Its number, which is the same in every database."""
    dump: Callable[[Any], bytes]
    """Returns the wire format of a value."""


class ArrayType(NamedTuple):
    """A type of arrays."""

    oid: int
    element: int
    """The oid of its elements."""
    encode: Callable[[Any], bytes]
    """Encodes one element that is not NULL, with its length before it."""
    encode_all: Callable[[Sequence[Any]], bytes] | None = None
    """Does the same with all elements at once, where that is quicker and none is NULL."""

    def dump(self, values: Sequence[Any], /) -> bytes:
        nulls = None in values
        head = _HEAD.pack(1, nulls, self.element, len(values), 1)
        if nulls:
            return head + b"".join([_NULL if value is None else self.encode(value) for value in values])
        if self.encode_all is not None:
            return head + self.encode_all(values)
        return head + b"".join(map(self.encode, values))


def _bytea(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _text(value: str) -> bytes:
    return _name(value) if len(value) <= MAX_NAME else _any_text(value)


@lru_cache(maxsize=1_024)
def _name(value: str) -> bytes:
    # Nearly all texts are names of kinds, lanes and steps, which come again and again.
    return _any_text(value)


def _any_text(value: str) -> bytes:
    return _bytea((value if value.isascii() and "\0" not in value else storable(value)).encode())


@lru_cache(maxsize=1_024)
def _many(element: str, count: int) -> Struct:
    return Struct("!" + element * count)


def _all(element: str) -> Callable[[Sequence[Any]], bytes]:
    """Return what encodes numbers of eight bytes, each with its length before it."""

    def encode(values: Sequence[Any]) -> bytes:
        interleaved: list[Any] = [8] * (2 * len(values))
        interleaved[1::2] = values
        return _many(element, len(values)).pack(*interleaved)

    return encode


BIGINTS: Final = ArrayType(1016, 20, lambda value: _BIGINT.pack(8, value), _all("iq"))
FLOATS: Final = ArrayType(1022, 701, lambda value: _FLOAT8.pack(8, value), _all("id"))
TEXTS: Final = ArrayType(1009, 25, _text)
BYTEAS: Final = ArrayType(1001, 17, _bytea)


BIGINT: Final = ScalarType(20, Struct("!q").pack)
BYTEA: Final = ScalarType(17, bytes)


class BinaryStatement:
    """A statement and the types of its parameters. One with a name may be prepared under it.

    What takes long arrays has none: a plan that was made without knowing how long they are compares each with each.
    """

    def __init__(self, sql: str, types: Sequence[ScalarType | ArrayType], name: str = "") -> None:
        self.name = name.encode()
        self.sql = sql.encode()
        self._types = types
        self.oids = [each.oid for each in types]
        self.formats = [1] * len(types)

    def dump(self, values: Sequence[Any]) -> list[bytes]:
        """Return the wire format of its parameters."""
        return [kind.dump(value) for kind, value in zip(self._types, values, strict=True)]
