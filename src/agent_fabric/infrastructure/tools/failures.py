"""Finds what went wrong in the output of a command, so that a model reads it first and not last, if at all."""

import re
from collections.abc import Iterator

MAX_FAILURES = 3
_MAX_CHARS = 300
_RAISED = re.compile(r"(?:E\s+)?((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b.*)")
_MARKS = re.compile(r"[\s^~]*")
_PYTEST = re.compile(r"E\s+(assert .*)")


_REMEDIES = (
    (re.compile(r'can only concatenate str \(not "\w+"\) to str'), "put str( ) around what is no text"),
    (
        re.compile(r"unsupported operand type\(s\) for .{1,4} '(?:int|str|float)' and '(?:int|str|float)'"),
        "convert one of them",
    ),
)
"""What mends an error for certain enough: a small model explains it rightly, and writes the same program again."""


def failures_in(output: str) -> list[str]:
    """Return the first failures that Python or its test runners tell, each with the line of code that it came from."""
    return list(dict.fromkeys(_failures(output.splitlines())))[:MAX_FAILURES]


def _failures(lines: list[str]) -> Iterator[str]:
    for at, line in enumerate(lines):
        found = _RAISED.fullmatch(line) or _PYTEST.fullmatch(line)
        if found:
            remedy = next((f" ({advice})" for pattern, advice in _REMEDIES if pattern.search(found[1])), "")
            code, said = _code_above(lines, at), found[1].rstrip()
            yield _in_words(code, said) or f"{said}{remedy}{_at(code)}"[:_MAX_CHARS]


_EQUAL = re.compile(r"self\.assertEqual\((?P<tried>.+\)), *[^()]+\)")
_DIFFERENT = re.compile(r"AssertionError: (?P<got>[^!=]{1,60}) != (?P<wanted>[^!=]{1,60})")


def _in_words(code: str, said: str) -> str:
    """Return which call of a test gave what, and what it must give; a small model takes "7 != 11" for line 7."""
    equal, different = _EQUAL.fullmatch(code), _DIFFERENT.fullmatch(said)
    if equal is None or different is None:
        return ""
    return f"{equal['tried']} gave {different['got']} and must give {different['wanted']}"


def _at(code: str) -> str:
    """Return where it happened; last, and not as `code -> error`, which a small model copies into its program."""
    return f" in this line: {code}" if code else ""


def _code_above(lines: list[str], at: int) -> str:
    """Return the line of code of a traceback that ends here."""
    while at and _MARKS.fullmatch(lines[at - 1]):
        at -= 1
    before = lines[at - 1] if at else ""
    place = lines[at - 2].lstrip() if at > 1 else ""
    return before.strip() if place.startswith("File ") else ""
