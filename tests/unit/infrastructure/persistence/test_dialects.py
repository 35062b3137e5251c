"""One schema and one SQL text, as each database takes them."""

import hashlib
import re

import pytest

from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL, SQLITE, translate
from agent_fabric.infrastructure.persistence.schema import MIGRATIONS
from agent_fabric.infrastructure.persistence.sql import marks, storable

RELEASED = ["0c0d4f9390168e46", "29c8f4841a9f5608", "219889e033f9007f", "465fcff17a097f72", "4c7b46ff65ccc7a6"]


def test_a_released_migration_never_changes() -> None:
    found = [hashlib.sha256(SQLITE.schema(text).encode()).hexdigest()[:16] for text in MIGRATIONS]
    assert found[: len(RELEASED)] == RELEASED


@pytest.mark.parametrize("text", MIGRATIONS)
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
