"""One schema and one SQL text, as each database takes them."""

import hashlib
import re
from pathlib import Path

import pytest

from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL, SQLITE, translate
from agent_fabric.infrastructure.persistence.schema import FORMAT, STEPS, read_steps
from agent_fabric.infrastructure.persistence.sql import marks, storable

RELEASED = (
    *("af2f689479d0b5f9", "858cde9bd4c528a9", "d470bfa528014d8a", "0648afd9c5f8e92e", "55a8fc2242d3c7e2"),
    *("aedf76784d463193", "1e5bd45a08328df3", "40e033b1f007285e", "2662714f6ea25817", "48ab1c75c55a3dfa"),
    *("1c24059923403115", "71730cf88d128d3a", "fa667d55c9305f40", "36581b04d839cdda", "6ae5b0720d133661"),
    *("15802914248e64ca", "90fbebc9de478d24", "4e8b7d3ec23c5aa1", "7998bc183086129e", "14de20a452fc8b20"),
    *("a3a52327a8027179", "7496be812c0b4bad", "68277897e58d43b6", "42d0381a77bb7c71", "abcda2678269dff2"),
    *("4768a2df9eb8fa6f", "c4c0e7e8b1b22fb8", "b6b45cf9baae380b", "0d81f40028dfd3c0", "5eeb54532e276d47"),
    *("40411c28a11e91c0", "87ae1d072ad38d84", "b5bd0a1e481f2945", "56f2c0eea9b67bdc"),
)


def digest(step: str) -> str:
    """Return a hash of what a step does: not of its comments, nor of how it is laid out."""
    lines = [line for line in step.splitlines() if not line.startswith("--")]
    return hashlib.sha256(" ".join(" ".join(lines).split()).encode()).hexdigest()[:16]


def test_a_released_step_never_changes() -> None:
    assert tuple(digest(SQLITE.schema(step)) for step in read_steps()[: len(RELEASED)]) == RELEASED


def test_steps_are_numbered_without_a_gap_and_the_format_is_the_number_of_the_last() -> None:
    names = sorted(path.name for path in Path(STEPS).glob("*.sql"))
    assert [int(name[:4]) for name in names] == list(range(1, FORMAT + 1))
    assert len(read_steps(FORMAT - 1)) == 1
    assert read_steps(FORMAT) == []


@pytest.mark.parametrize("text", read_steps())
def test_postgresql_gets_its_own_types_views_and_full_text_tables(text: str) -> None:
    schema = POSTGRESQL.schema(text)
    assert not re.search(r"STRICT|AUTOINCREMENT|\bBLOB\b|\bREAL\b|\bINTEGER\b|VIRTUAL|fts5|\biif\(", schema)
    tables = re.compile(r"CREATE (?:VIRTUAL )?(?:TABLE|VIEW) (\w+)")
    assert tables.findall(schema) == tables.findall(text)


def test_a_driver_of_postgresql_gets_its_placeholders() -> None:
    assert translate("SELECT ? WHERE a LIKE '%'") == "SELECT %s WHERE a LIKE '%%'"
    assert translate("SELECT coalesce(a, '?') || 'it''s ?' WHERE b = ?").count("%s") == 1
    assert marks(("a", "b", "c")) == "?, ?, ?"


def test_text_that_no_database_stores_is_replaced() -> None:
    assert storable("é half \ud800 and \0") == "é half ? and \ufffd"
