"""Every command that the program names, in hints and elsewhere, is one of ours."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import ROOT
from unit.interfaces.test_document_commands import problem_with

SOURCE = ROOT / "src/agent_fabric"
_NAMED = re.compile(r"(?<![\w./-])fabric (?=[a-z])([^`\n]*)")
_HOLE = "HOLE"
"""Stands for what is only known when a sentence is said."""
_PROSE = re.compile(r"^(?:folders?|itself|is|was|has|and|of|or|that|does|here|to|in|key|not|run's|bus|as|owns)\b")
_END = re.compile(
    r"[,;:)(|<>]|\.(?:\s|$)|\s{2,}| (?:to|and|or|takes|shows|lists|says|is|starts|on|with|where|in|which) "
)
"""Where a command in a sentence ends."""


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module, without docstrings; what is put in when they are said is one word."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inner |= {id(each) for each in ast.walk(node) if each is not node}
            parts = [each.value if isinstance(each, ast.Constant) else _HOLE for each in node.values]
            if id(node) not in inner:
                yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of each command that a sentence names, as far as they are its own."""
    for found in _NAMED.finditer(text):
        if not _PROSE.match(found[1]):
            words = _END.split(found[1])[0].replace("…", "x")
            yield shlex.split(words) if words.count('"') % 2 == words.count("'") % 2 == 0 else words.split()


def problem_in(words: list[str]) -> str:
    """Return what is wrong with a command; what a sentence leaves out, or puts in when it is said, is not."""
    problem = "" if _HOLE in words[1:2] else problem_with(words)
    return "" if problem.startswith(("Missing ", f"Got unexpected extra argument(s) ({_HOLE}")) else problem


@pytest.mark.proves("DB-4")
def test_every_command_that_the_program_names_is_one_of_ours() -> None:
    found = [
        (f"{path.relative_to(ROOT)}:{line}", words)
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in sentences(path)
        for words in commands_in(text)
    ]
    assert len(found) > 300
    assert [f"{place}: {problem}" for place, words in found if (problem := problem_in(words))] == []


@pytest.mark.parametrize("text", ["Show it: fabric logs 3f9a --full", "See `fabric lgos list`.", "fabric runs list"])
def test_a_command_that_is_none_is_noticed(text: str) -> None:
    assert [problem for words in commands_in(text) if (problem := problem_in(words))] != []
