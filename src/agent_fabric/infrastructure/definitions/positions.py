"""Reads YAML and JSON, and tells where everything stands."""

import json
import re
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, NamedTuple

from agent_fabric.config.formats.json_text import parse_json
from agent_fabric.config.formats.syntax import SyntaxProblem, TwiceProblem
from agent_fabric.domain.dataclass import dataclass


class Spot(NamedTuple):
    """A place in a text, counted from one."""

    line: int
    column: int


@dataclass(slots=True)
class Spots:
    """Where a value stands, and where everything in it does."""

    at: Spot
    key_at: Spot | None = None
    """Of a value in a mapping: where its key stands."""
    inside: "dict[str | int, Spots]" = field(default_factory=dict)

    def find(self, path: tuple[str | int, ...]) -> Spot:
        """Return where the entry at a path begins; of a path that leads further than the text, its last part there."""
        here = self
        for part in path:
            below = here.inside.get(part)
            if below is None:
                break
            here = below
        return here.key_at or here.at


class Refused(SyntaxProblem):
    """A text that its format allows and we do not; the message says enough."""

    def __init__(self, message: str, at: Spot) -> None:
        super().__init__(message, line=at.line, column=at.column)


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)


def json_spots(text: str) -> Spots:
    """Return where the values of a text stand that is known to be JSON."""
    return _walk(text, stop_at_second=False)


def second_key(text: str) -> Spot:
    """Return where the first key stands that its mapping has already."""
    return _walk(text, stop_at_second=True).at


def _walk(text: str, *, stop_at_second: bool) -> Spots:
    lines = _Lines(text)
    root = Spots(Spot(1, 1))
    stack: list[tuple[Spots, bool]] = []
    key: str | None = None
    key_at: Spot | None = None
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in "}]":
            stack.pop()
        if word in "}],:":
            continue
        spot = lines.spot(token.start())
        if stack and stack[-1][1] and key is None:
            key, key_at = json.loads(word), spot
            if stop_at_second and key in stack[-1][0].inside:
                return Spots(spot)
            continue
        here = Spots(spot, key_at)
        if not stack:
            root = here
        elif stack[-1][1] and key is not None:
            stack[-1][0].inside[key] = here
        else:
            stack[-1][0].inside[len(stack[-1][0].inside)] = here
        key = key_at = None
        if word in "{[":
            stack.append((here, word == "{"))
    return root


class _Lines:
    """Tells line and column of places that are asked for from the first to the last; no part is looked at twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._start = 0
        self._seen = 0

    def spot(self, offset: int) -> Spot:
        while (end := self._text.find("\n", self._seen, offset)) >= 0:
            self._line += 1
            self._start = self._seen = end + 1
        self._seen = offset
        return Spot(self._line, offset - self._start + 1)


_NEEDS_QUOTES: Final = re.compile(r"""(?:^|[:\-\[,]\s+)\{\{""")


class Parsed(NamedTuple):
    """A value and where its parts stand."""

    value: Any
    spots: Callable[[], Spots]
    """A function, because a sound file never needs them."""


def parse_with_spots(text: str, suffix: str) -> Parsed:
    """Return the value that a text holds: JSON for `.json`, else YAML.

    Raises:
        SyntaxProblem: it is not, a key twice in one mapping, an alias, a tag, nested too deeply.
    """
    if suffix == ".json":
        try:
            return Parsed(parse_json(text), lambda: json_spots(text))
        except TwiceProblem as problem:
            raise Refused(problem.message, second_key(text)) from None
    from agent_fabric.infrastructure.definitions.yaml_positions import read_yaml  # noqa: PLC0415 - takes its time

    value, spots = read_yaml(text)
    return Parsed(value, lambda: spots)


def hint_for(problem: SyntaxProblem, text: str, suffix: str) -> str:
    """Say what is probably meant where a text cannot be read."""
    if suffix == ".json":
        return "" if isinstance(problem, Refused) else _JSON
    lines = text.splitlines()
    wrong = lines[problem.line - 1] if 0 < problem.line <= len(lines) else ""
    before = lines[problem.line - 2] if 1 < problem.line <= len(lines) + 1 else ""
    if any(_NEEDS_QUOTES.search(each) for each in (wrong, before)):
        return 'Put quotes around a value that begins with {{, as in: text: "{{ inputs.text }}"'
    if "\t" in wrong[: len(wrong) - len(wrong.lstrip())]:
        return "Indent with spaces; YAML does not take tabs."
    return "" if isinstance(problem, Refused | TwiceProblem) else _YAML


_JSON: Final = "JSON takes double quotes, no comments, and no comma after the last item."
_YAML: Final = "YAML is `key: value`, indented with spaces; put quotes around text with : or # or {{ in it."
