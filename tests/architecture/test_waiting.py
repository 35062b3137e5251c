"""Nothing holds up the event loop, and nobody reaches for what was not given to them."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.test_layers import FILES, ROOT, relative

WITH_GLOBALS = {
    "agent_fabric/infrastructure/observability/operations_log.py",
    "agent_fabric/infrastructure/threads.py",
}
"""A process has one log, as it has one standard error, and one interval at which its threads take turns."""
HELD_UP = {"sleep": {"time"}, "run": {"subprocess"}, "check_output": {"subprocess"}, "urlopen": {"request", "urllib"}}
"""Calls that make a whole thread wait, and what they belong to."""


_HOLDS_UP = re.compile("|".join(rf"\b{owner}\.{name}\b" for name, owners in HELD_UP.items() for owner in owners))
_GLOBAL = re.compile(r"\bglobal\b")


def parsed_where(words: re.Pattern[str]) -> Iterator[tuple[ast.Module, Path]]:
    """Yield the modules in which these words stand: parsing all of them takes long."""
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        if words.search(text):
            yield ast.parse(text), file


def coroutines(tree: ast.Module) -> Iterator[ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef))


def waits(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr=name, value=ast.Name(id=owner)):
            return owner in HELD_UP.get(name, ())
        case _:
            return False


def own_calls(coroutine: ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """Return the calls of a coroutine itself; a function inside may be meant for a thread."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(coroutine))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


@pytest.mark.proves("FC-069")
def test_no_coroutine_makes_its_thread_wait() -> None:
    found = [
        f"{relative(file)}:{call.lineno}"
        for tree, file in parsed_where(_HOLDS_UP)
        for coroutine in coroutines(tree)
        for call in own_calls(coroutine)
        if waits(call)
    ]
    assert found == []
    lint = [sys.executable, "-m", "ruff", "check", "--select", "ASYNC", "--quiet", "src"]
    done = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.proves("FC-071")
def test_what_there_is_one_of_is_given_and_not_reached_for() -> None:
    def has_globals(tree: ast.Module) -> bool:
        return any(isinstance(node, ast.Global) for node in ast.walk(tree))

    assert {relative(file) for tree, file in parsed_where(_GLOBAL) if has_globals(tree)} == WITH_GLOBALS
