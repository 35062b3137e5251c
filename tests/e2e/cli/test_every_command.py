"""Every command is executed by some test as a person types it; printing its help does not count."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from documents import commands, documents, fabric_calls
from e2e.documents.stories import STORIES, why_not_run
from reference_pages import cli_commands

TESTS = Path(__file__).parents[2]
_NOT_RUN = frozenset({"--help", "-h"})
_GIVEN = "*"
_DECORATORS = frozenset({"parametrize", "fixture", "proves"})


def typed_in_documents() -> Iterator[str]:
    """Yield the commands that `tests/e2e/documents` types."""
    for document in documents():
        for each in commands(document) if document in STORIES else ():
            if why_not_run(document, each.text) is None:
                yield from (named(call) for call in fabric_calls(each.text) if _NOT_RUN.isdisjoint(call))


def typed_in_tests() -> Iterator[str]:
    """Yield what tests hand to a function that runs it: `fabric("logs", "show", …)`, `invoke("logs", ["show"])`."""
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        groups = dict(_groups(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") not in _DECORATORS:
                words = list(_words(node.args))
                if _NOT_RUN.isdisjoint(words):
                    yield words[0] if words else ""
                    yield from map(" ".join, pairwise(words))
                    if group := groups.get(getattr(node.func, "id", "")):
                        yield from (f"{group} {word}" for word in words[:2])  # the first may be a fixture


def _groups(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield functions that run commands of one group: they hand what they are given to `invoke("logs", [*words])`."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                words = list(_words(node.args)) if isinstance(node, ast.Call) else []
                if len(words) > 1 and words[1] == _GIVEN:
                    yield function.name, words[0]


def _words(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.List | ast.Tuple):
            yield from _words(node.elts)
        elif isinstance(node, ast.Starred):
            yield _GIVEN
        else:
            yield node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def named(call: list[str]) -> str:
    """Return the name of the command that a line calls."""
    return next((name for name in (" ".join(call[:2]), *call[:1]) if name in every_command()), "")


@cache
def every_command() -> frozenset[str]:
    """Return the names of all commands."""
    return frozenset(each.words.removeprefix("fabric ") for each in cli_commands())


@pytest.mark.proves("RE-10")
def test_every_command_is_typed_by_a_test() -> None:
    assert len(every_command()) > 170
    assert sorted(every_command() - {*typed_in_tests(), *typed_in_documents()}) == []
