"""What bash puts in place of `$x`, `${x#y}`, `$(…)` and their like: finding them in a word, and working them out.

What cannot be worked out is UNKNOWN, never the text as it stands.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from agent_fabric.domain.policy.places import UNKNOWN

_NAME: Final = re.compile(r"\w+|[@*#?$!-]")
_PARAMETER: Final = re.compile(
    r"(?P<sign>[!#]?)(?P<name>\w+|[@*])(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)|(?P<special>[#?$!-])", re.DOTALL
)
_FORM: Final = re.compile(r"(?P<how>##?|%%?|//?|:)(?P<rest>.*)", re.DOTALL)
_CLOSERS: Final = {"${": "}", "$(": ")"}
_PATTERN: Final = frozenset("*?[")


MAX_FORM_CHARS: Final = 256
"""Of a value, and of what is done with it; beyond that, nothing is worked out."""


class Parameter(NamedTuple):
    """An expansion of a variable, taken apart."""

    name: str
    indirect: bool
    """The variable holds the name of another one."""
    every: bool
    """It stands for all elements of a list."""
    rest: str
    """What is done with the value: `#x`, `:-y`."""


class Piece(NamedTuple):
    """A part of a word."""

    literal: str
    expansion: str
    """What follows it; empty at the end."""


def pieces_of(word: str) -> Iterator[Piece]:
    """Take a word apart into literal text and expansions; what is not closed reaches to the end."""
    start = at = 0
    while (at := _next_sign(word, at)) >= 0:
        end = _end_of(word, at)
        if end > at + 1:
            yield Piece(word[start:at], word[at:end])
            start = end
        at = end
    yield Piece(word[start:], "")


def parameter_in(expansion: str) -> Parameter | None:
    """Take `$x` or `${…}` apart; None: it is neither, or says nothing that is known before it runs."""
    inner = expansion[1:]
    if inner.startswith("{"):
        if not inner.endswith("}"):
            return None
        inner = inner[1:-1]
    match = _PARAMETER.fullmatch(inner)
    if match is None or match["special"] or match["sign"] == "#":
        return None
    every = match["name"] in {"@", "*"} or match["index"] in {"@", "*"}
    return Parameter(match["name"], match["sign"] == "!", every, match["rest"])


def apply_form(value: str, form: str, *, every: bool) -> str:
    """Return what `#x`, `%x`, `/x/y` or `:n` makes of a value.

    The start of a path below the workspace stays there, so cutting something off its end needs no exact value.
    """
    match = _FORM.fullmatch(form)
    if match is None:
        return UNKNOWN
    how, rest = match["how"], match["rest"]
    if how == ":" and every:
        return value  # some of the elements
    home, here = value.startswith("~"), value == "." or value.startswith("./")  # `$PWD` is written so as well
    exact = not home and not here and not _PATTERN.intersection(value) and UNKNOWN not in value
    exact = exact and not set("$`\\\"'").intersection(rest) and max(len(value), len(rest)) <= MAX_FORM_CHARS
    if exact:
        return _worked_out(value, how, rest)
    if how[0] == "%" and not here and not value.startswith(("/", UNKNOWN)):
        return value if not home or "/" not in value else UNKNOWN
    return UNKNOWN


def _worked_out(value: str, how: str, rest: str) -> str:
    match how:
        case "#" | "##":
            ends = range(len(value) + 1) if how == "#" else range(len(value), -1, -1)
            return next((value[end:] for end in ends if fnmatchcase(value[:end], rest)), value)
        case "%" | "%%":
            starts = range(len(value), -1, -1) if how == "%" else range(len(value) + 1)
            return next((value[:start] for start in starts if fnmatchcase(value[start:], rest)), value)
        case "/" | "//":
            old, _, new = rest.partition("/")
            if not old or old[0] in "#%" or _PATTERN.intersection(old):
                return UNKNOWN
            return value.replace(old, new, 1 if how == "/" else -1)
        case _:
            numbers = re.fullmatch(r"\s*(-?\d{1,4})\s*(?::\s*(-?\d{1,4})\s*)?", rest)
            if numbers is None:
                return UNKNOWN
            cut = value[int(numbers[1]) :]
            return cut[: int(numbers[2])] if numbers[2] else cut


def _next_sign(word: str, at: int) -> int:
    found = [place for place in (word.find("$", at), word.find("`", at)) if place >= 0]
    return min(found, default=-1)


def _end_of(word: str, at: int) -> int:
    """Return where the expansion ends that starts here; the next place if none does."""
    if word[at] == "`":
        end = word.find("`", at + 1)
        return end + 1 if end >= 0 else len(word)
    closer = _CLOSERS.get(word[at : at + 2])
    if closer is None:
        match = _NAME.match(word, at + 1)
        return match.end() if match else at + 1
    opener, depth = word[at + 1], 0
    for place in range(at + 1, len(word)):
        depth += (word[place] == opener) - (word[place] == closer)
        if not depth:
            return place + 1
    return len(word)


def split_words(text: str) -> list[str]:
    """Split a text at blanks that stand neither in quotes nor in a substitution; quotes around a word are removed."""
    found, word, depth, quote = list[str](), "", 0, ""
    for sign in text:
        if sign.isspace() and not depth and not quote:
            found += [word] if word else []
            word = ""
            continue
        if sign in "'\"`" and quote in {"", sign}:
            quote = "" if quote else sign
        elif not quote:
            depth += (sign in "({") - (sign in ")}" and depth > 0)
        word += sign
    return [each.strip("'\"") for each in [*found, word] if each]
