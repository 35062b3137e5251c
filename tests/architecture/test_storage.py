"""The store is behind ports: one factory opens it, and nothing else knows an adapter class."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from architecture.test_layers import FILES, SOURCE, relative

PACKAGE = "agent_fabric.infrastructure.persistence"
STORE = SOURCE / "infrastructure" / "persistence"
OTHER_DATABASES = ("migrations", "postgres")
INSIDE = sorted(file for file in STORE.rglob("*.py") if file.relative_to(STORE).parts[0] not in OTHER_DATABASES)
ADAPTER = {"completion_rows", "database", "snapshot", "store", "store_gauge"}
"""The modules that know the driver of SQLite. All others are written for every database."""
NOT_SHARED = re.compile(
    r"INSERT OR |\biif\(|\btotal\(|PRAGMA|sqlite_|last_insert|AUTOINCREMENT|\?\d|\bjson_each\(|->>|LIMIT -1"
)
OUTSIDE = [file for file in FILES if not file.is_relative_to(SOURCE / "infrastructure" / "persistence")]


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that a file imports from the package of the store."""
    if PACKAGE not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith(PACKAGE))


def test_the_factory_is_all_that_anything_outside_imports_from_the_store() -> None:
    found = {(relative(file), *each) for file in OUTSIDE for each in imported(file.read_text())}
    # One opens the store, the other looks after its server. Shell completion has rows of its own: both load too much.
    allowed = {
        (f"{PACKAGE}.storage", "open_storage"),
        (f"{PACKAGE}.storage", "open_upkeep"),
        (f"{PACKAGE}.runs", "completion_rows"),
    }
    assert {(module, name) for _, module, name in found} == allowed
    assert all(file.startswith("agent_fabric/bootstrap/") for file, _, _ in found)


def test_no_name_outside_the_store_says_which_database_it_is() -> None:
    named = re.compile(r"\bSqlite[A-Z]\w*|\bimport apsw\b")
    assert [relative(file) for file in OUTSIDE if named.search(file.read_text())] == []


def test_only_the_adapter_knows_the_driver() -> None:
    assert {file.stem for file in INSIDE if re.search(r"\bapsw\.|import apsw", strings_removed(file))} == ADAPTER


def strings_removed(file: Path) -> str:
    with file.open("rb") as lines:
        return " ".join(token.string for token in tokenize.tokenize(lines.readline) if token.type != tokenize.STRING)


def test_tables_speak_only_the_sql_that_databases_share() -> None:
    # Schemas are written for SQLite and translated by `dialects`, which has its own test.
    tables = [
        file
        for file in INSIDE
        if file.stem not in {*ADAPTER, "dialects", "schema", "sql"} and not file.stem.startswith("schema_")
    ]
    # The index for full-text search has rows of its own kind.
    shared = {relative(file): file.read_text().replace("INSERT OR REPLACE INTO run_text", "") for file in tables}
    assert {name: found[0] for name, text in shared.items() if (found := NOT_SHARED.search(text))} == {}
