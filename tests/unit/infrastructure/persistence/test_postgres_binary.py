"""Arrays as PostgreSQL reads them."""

import struct
from typing import Any

import pytest

from agent_fabric.infrastructure.persistence.postgres.binary import (
    BIGINT,
    BIGINTS,
    BYTEA,
    BYTEAS,
    FLOATS,
    TEXTS,
    ArrayType,
    BinaryStatement,
)


def loaded(data: bytes) -> tuple[int, list[bytes | None]]:
    """Return the type of the elements, and the elements."""
    dimensions, nulls, element, count, first = struct.unpack_from("!iiIii", data)
    assert (dimensions, first) == (1, 1)
    place, values = 20, list[bytes | None]()
    for _ in range(count):
        (length,) = struct.unpack_from("!i", data, place)
        place += 4
        values.append(None if length < 0 else data[place : place + length])
        place += max(length, 0)
    assert place == len(data)
    assert bool(nulls) == (None in values)
    return element, values


@pytest.mark.parametrize(
    ("kind", "values", "element", "wire"),
    [
        (BIGINTS, [1, -2], 20, [struct.pack("!q", 1), struct.pack("!q", -2)]),
        (FLOATS, [1.5], 701, [struct.pack("!d", 1.5)]),
        (TEXTS, ["a", None, "ü"], 25, [b"a", None, "ü".encode()]),
        (TEXTS, ["a\0b", "\ud800"], 25, ["a\ufffdb".encode(), b"?"]),
        (BYTEAS, [b"", b"\0\xff", None], 17, [b"", b"\0\xff", None]),
        (BYTEAS, [], 17, []),
    ],
)
def test_values_stand_with_their_lengths(kind: ArrayType, values: list[Any], element: int, wire: list[Any]) -> None:
    assert loaded(kind.dump(values)) == (element, wire)


def test_a_statement_knows_the_types_of_its_parameters() -> None:
    statement = BinaryStatement("SELECT $1, $2, $3", (BIGINT, BYTEA, BIGINTS))
    assert (statement.oids, statement.formats) == ([20, 17, 1016], [1, 1, 1])
    assert statement.dump((7, b"x", (7,))) == [struct.pack("!q", 7), b"x", BIGINTS.dump([7])]
    with pytest.raises(ValueError, match="shorter"):
        statement.dump((7,))
