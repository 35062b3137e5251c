"""Help, errors, hints and guides are in plain idiomatic English (DU-11). This keeps the worst oddities out."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "agent_fabric"
PACKAGES = ("interfaces", "application", "config", "bootstrap", "infrastructure", "client", "wire")
GUIDES = (ROOT / "README.md", *(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "operate").glob("*.md"))
ODD = {
    "whoever": "anyone who",
    "somebody": "someone",
    "anybody": "anyone",
    "everybody": "everyone",
    "those who": "users who",
    "what of it": "which part",
    "as it stands": "as it is",
    "as they stand": "as they are",
    "borne out": "confirmed",
    "for ever": "forever",
    "anew": "again",
    "count no more": "are no longer valid",
    "counts no more": "is no longer valid",
    "exclude each other": "cannot be combined",
    "cannot be had": "cannot be fetched",
    "is not welcome": "is refused",
    "leave away": "leave out",
    "with their network": "with your network access",
    "not understood here": "not supported here",
    "is not spoken": "is not supported",
    "thereof": "of it",
}
"""Odd words, and what to write instead."""
_FOUND = re.compile(rf"\b(?:{'|'.join(map(re.escape, ODD))})\b", re.IGNORECASE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _shown_texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module: literals, and of docstrings only those of commands, which are their help."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    notes: set[int] = set()
    for node in ast.walk(tree):
        is_command = isinstance(node, ast.FunctionDef) and any("app." in ast.unparse(d) for d in node.decorator_list)
        if not is_command:
            body = getattr(node, "body", ())
            notes |= (
                {id(each.value) for each in body if isinstance(each, ast.Expr)} if isinstance(body, list) else set()
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def _odd(text: str) -> list[str]:
    return [f"{found.group()!r}: write {ODD[found.group().lower()]!r}" for found in _FOUND.finditer(text)]


@pytest.mark.proves("DU-11")
@pytest.mark.parametrize("package", PACKAGES)
def test_no_help_error_or_hint_uses_an_odd_word(package: str) -> None:
    problems = [
        f"{file.relative_to(ROOT)}:{line}: {problem}"
        for file in sorted((SOURCE / package).rglob("*.py"))
        for line, text in _shown_texts(file)
        for problem in _odd(text)
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.proves("DU-11")
@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_no_guide_uses_an_odd_word(guide: Path) -> None:
    text = _FENCED.sub("", guide.read_text(encoding="utf-8"))
    assert not _odd(text)


def test_help_texts_of_commands_are_read_and_notes_for_developers_are_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Somebody."""\n\n@app.command()\ndef run():\n    """Whoever."""\n    raise ValueError("anew")\n'
    )
    assert [problem for _, text in _shown_texts(module) for problem in _odd(text)] == [
        "'Whoever': write 'anyone who'",
        "'anew': write 'again'",
    ]
