"""Help, errors, hints and guides are in plain idiomatic English (DU-11). This keeps the worst oddities out."""

import ast
import io
import re
import tokenize
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
_MAY_HOLD = re.compile(_FOUND.pattern.replace(r"\ ", r"\W+(?:[a-z]{1,2}[\"'])?\W*"), re.IGNORECASE)
"""As in a source, where a text may go on in the next literal. Most modules have none and need not be parsed."""
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _shown_texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that may hold an odd word: literals, and the docstrings of commands, their help."""
    source = file.read_text(encoding="utf-8")
    if not _MAY_HOLD.search(source):
        return
    tree = ast.parse(source)
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


@pytest.mark.parametrize(
    "source",
    ['("cannot be "\n    "had")', "('is not ' f'welcome {name}')", 'rb"x", "LEAVE AWAY"'],
    ids=["two lines", "another quote", "capitals"],
)
def test_an_odd_word_that_goes_on_in_the_next_literal_is_found(source: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(f"TEXT = {source}\n")
    shown = [text for _, text in _shown_texts(tmp_path / "module.py")]
    assert any(_odd(text) for text in shown)


PRONOUNS = re.compile(r"\b(?:whoever|somebody|nobody|anybody|everybody)\b", re.IGNORECASE)
"""Say who: the caller, the user, another process, no one."""
PARTICIPLES = re.compile(
    r"begun|bound|broken|brought|built|caught|chosen|dealt|done|drawn|driven|fallen|fed|felt|forgotten|found|frozen|given|"
    r"gone|grown|heard|held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|paid|redone|said|seen|sent|shown|"
    r"spent|spoken|stood|struck|stuck|swept|taken|thought|thrown|told|understood|undone|withdrawn|woken|won|worn|written|"
    r"(?!(?:emb|exce|fe|ne|proce|se|she|spe|s|succe)ed$)[a-z]+ed"
)
_MAY_BE_PARTICIPLE = re.compile(rf"\bdef\s+_*(?:{PARTICIPLES.pattern})_*\s*[(\[]")
"""More than these: `$` is not the end of a name here."""
DIALECT = re.compile(
    r"^\s*class _*(?:\w*Wish|\w*Habits|FleetDesk|McpDoor|Talk)\b|"
    r"^\s*_*(?:MOST|LONGEST)(?:_\w+)?\b[^=(\n]*=|\bbook\s*[:=]",
    re.MULTILINE,
)
CEILINGS = {"interfaces": 3}
"""How many are left on each floor: three functions of routes, whose names are public as `operationId`."""


def _notes(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and docstrings of a module, with their lines."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and before in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
        ):
            yield token.start[0], token.string
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            before = token.type


def _is_participle(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function that is no predicate is named by a participle alone."""
    if not PARTICIPLES.fullmatch(function.name.strip("_")):
        return False
    if any("property" in ast.unparse(decorator) for decorator in function.decorator_list):
        return False
    return function.returns is None or ast.unparse(function.returns) != "bool"


def _dialect(source: str) -> Iterator[tuple[int, str]]:
    """Yield what a module says in other words than those of the trade."""
    if PRONOUNS.search(source):
        for line, note in _notes(source):
            yield from ((line, found.group()) for found in PRONOUNS.finditer(note))
    for found in DIALECT.finditer(source):
        yield source.count("\n", 0, found.start()) + 1, found.group().strip()
    for node in ast.walk(ast.parse(source)) if _MAY_BE_PARTICIPLE.search(source) else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_participle(node):
            yield node.lineno, f"def {node.name}"


@pytest.mark.proves("RM-13")
@pytest.mark.parametrize("floor", sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()))
def test_names_and_notes_use_the_words_of_the_trade(floor: str) -> None:
    problems = [
        f"{file.relative_to(ROOT)}:{line}: {problem}"
        for file in sorted((SOURCE / floor).rglob("*.py"))
        for line, problem in _dialect(file.read_text(encoding="utf-8"))
    ]
    assert len(problems) <= CEILINGS.get(floor, 0), "\n".join(problems)


def test_pronouns_in_notes_and_participles_as_names_are_found() -> None:
    source = '''
"""Whoever."""
MOST_LINES = 3  # nobody
TEXT = "somebody"


def shown(text: str) -> str:
    """Return it."""


def ended(run: str) -> bool:
    """Return whether it has."""
'''
    assert [found for _, found in _dialect(source)] == ["Whoever", "nobody", "MOST_LINES =", "def shown"]
