"""Finds the commands in README and docs: those in console blocks, and those that a sentence names."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
_BLOCK: Final = re.compile(r"^( *)```(sh|bash|console)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"(?<![`\w])`(fabric [^`]+)`(?!`)")
_FENCED: Final = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_OPERATORS: Final = ("&&", "||", ";", "|", "&", "(", ")", ">", ">>", "<")


class Command(NamedTuple):
    """A command in a console block."""

    document: str
    line: int
    text: str
    """As it is typed; lines that go on are joined."""
    shown: tuple[str, ...]
    """The output that the document shows under it."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {self.text}"


def documents() -> list[str]:
    """Return all documents with commands for users."""
    return ["README.md", "CONTRIBUTING.md", *sorted(str(each.relative_to(ROOT)) for each in ROOT.glob("docs/**/*.md"))]


def commands(document: str) -> list[Command]:
    """Return the commands in the console blocks of a document, in order."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start()) + 2
        lines = [line.removeprefix(block[1]) for line in block[3].splitlines()]
        found += _commands(document, first, lines, prompted=block[2] == "console")
    return found


def inline_commands(document: str) -> list[str]:
    """Return the `fabric …` commands that sentences and tables of a document name."""
    text = _FENCED.sub("", (ROOT / document).read_text(encoding="utf-8"))
    return [" ".join(found.replace("\\|", "|").split()) for found in _INLINE.findall(text)]


def fabric_calls(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `fabric` that a line of shell starts, also inside of `$(…)`."""
    for inner in re.findall(r"\$\(([^()]*)\)", text):
        yield from fabric_calls(inner)
    text = re.sub(r"^\w+\(\) \{.*\}$", "", text, flags=re.DOTALL)  # a shell function: what it is given is not here
    lexer = shlex.shlex(text.replace("…", "..."), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _OPERATORS:
            words.append(word)
            continue
        while words and re.fullmatch(r"\w+=.*|export|sudo|env", words[0], re.DOTALL):
            words.pop(0)
        if words and (words[0] in {"fabric", "fab"} or words[0].endswith("/bin/fabric")):
            yield words[1:]
        words = []


def _commands(document: str, first: int, lines: list[str], *, prompted: bool) -> list[Command]:
    found: list[Command] = []
    going_on = False
    for number, line in enumerate(lines, first):
        if going_on:
            last = found.pop()
            found.append(last._replace(text=f"{last.text}\n{line}"))
        elif prompted and not line.startswith("$ "):
            if found:
                last = found.pop()
                found.append(last._replace(shown=(*last.shown, line)))
            continue
        elif line.strip() and not line.startswith("#"):
            found.append(Command(document, number, line.removeprefix("$ "), ()))
        else:
            continue
        going_on = line.endswith("\\")
    return found
