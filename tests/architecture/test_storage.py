"""The store is behind ports: one factory opens it, and nothing else knows an adapter class."""

import ast
import re
from collections.abc import Iterator

from architecture.test_layers import FILES, SOURCE, relative

PACKAGE = "agent_fabric.infrastructure.persistence"
OUTSIDE = [file for file in FILES if not file.is_relative_to(SOURCE / "infrastructure" / "persistence")]


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that a file imports from the package of the store."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith(PACKAGE))


def test_the_factory_is_all_that_anything_outside_imports_from_the_store() -> None:
    found = {(relative(file), *each) for file in OUTSIDE for each in imported(file.read_text())}
    assert {(module, name) for _, module, name in found} == {(f"{PACKAGE}.storage", "open_storage")}
    assert all(file.startswith("agent_fabric/bootstrap/") for file, _, _ in found)


def test_no_name_outside_the_store_says_which_database_it_is() -> None:
    named = re.compile(r"\bSqlite[A-Z]\w*|\bimport apsw\b")
    assert [relative(file) for file in OUTSIDE if named.search(file.read_text())] == []
