"""Reads YAML and JSON, and tells where everything stands."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final, NamedTuple

import yaml

from agent_fabric.config.formats.json_text import parse_json
from agent_fabric.config.formats.syntax import SyntaxProblem, TwiceProblem
from agent_fabric.config.formats.yaml_text import problem_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.validate import MAX_VALUES
from agent_fabric.domain.tools.json_schema import MAX_DEPTH


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


_MAX_EVENTS: Final = 3 * MAX_VALUES
"""A value has a key or an end beside its own event."""
_Loader: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read."""

    value: dict[str, Any] | list[Any]
    spots: Spots
    key: str | None = None
    """In a mapping: the key whose value comes next."""
    key_at: Spot | None = None


def read_yaml(text: str) -> tuple[Any, Spots]:
    """Return the value that a text holds, None if it holds nothing, and where its parts stand.

    Raises:
        SyntaxProblem: not YAML, or a part of it that is refused.
    """
    try:
        return _build(yaml.parse(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise _locate(error, text) from None


def _build(events: Iterator[Any]) -> tuple[Any, Spots]:
    stack: list[_Open] = []
    root: tuple[Any, Spots] | None = None
    documents = 0
    for count, event in enumerate(events):
        spot = Spot(event.start_mark.line + 1, event.start_mark.column + 1)
        if count > _MAX_EVENTS:
            raise Refused(f"it has more than {MAX_VALUES} values", spot)
        match event:
            case yaml.DocumentStartEvent():
                documents += 1
                if documents > 1:
                    raise Refused("there is more than one document: only one may follow the first `---`", spot)
                continue
            case yaml.AliasEvent():
                raise Refused("aliases are not supported: write the value out", spot)
            case yaml.CollectionEndEvent():
                stack.pop()
                continue
            case yaml.ScalarEvent():
                _refuse_tag(event, spot)
                if stack and isinstance(stack[-1].value, dict) and stack[-1].key is None:
                    _take_key(stack[-1], event.value, spot)
                    continue
                value: Any = _scalar(event, spot)
            case yaml.CollectionStartEvent():
                _refuse_tag(event, spot)
                if stack and isinstance(stack[-1].value, dict) and stack[-1].key is None:
                    raise Refused("a mapping or list cannot be a key; an expression needs quotes around it", spot)
                if len(stack) >= MAX_DEPTH:
                    raise Refused("it is nested too deeply", spot)
                value = {} if isinstance(event, yaml.MappingStartEvent) else []
            case _:
                continue
        spots = Spots(spot)
        if stack:
            _put(stack[-1], value, spots)
        else:
            root = value, spots
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(value, spots))
    return root or (None, Spots(Spot(1, 1)))


def _take_key(mapping: _Open, key: str, spot: Spot) -> None:
    if key in mapping.value:
        raise TwiceProblem(key, line=spot.line, column=spot.column)
    mapping.key, mapping.key_at = key, spot


def _put(into: _Open, value: Any, spots: Spots) -> None:
    if isinstance(into.value, list):
        into.spots.inside[len(into.value)] = spots
        into.value.append(value)
    elif into.key is not None:
        spots.key_at = into.key_at
        into.spots.inside[into.key] = spots
        into.value[into.key] = value
        into.key = None


def _refuse_tag(event: Any, spot: Spot) -> None:
    if event.tag is not None:
        raise Refused("tags are not supported: write the value without `!`", spot)


def _scalar(event: Any, spot: Spot) -> Any:
    text: str = event.value
    if not event.implicit[0]:  # in quotes, or a block
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NO_NUMBER.fullmatch(text):
        raise Refused(f"{text} is not a number that can be used", spot)
    return text


def _locate(error: yaml.YAMLError, text: str) -> SyntaxProblem:
    found, opened = problem_of(error, text), getattr(error, "context_mark", None)
    if found.message == "found unexpected end of stream" and opened is not None:
        message = "a quotation mark is opened here and never closed"
        return SyntaxProblem(message, line=opened.line + 1, column=opened.column + 1)
    return SyntaxProblem(_PLAINER.get(found.message, found.message), line=found.line, column=found.column)


_PLAINER: Final = {
    "mapping values are not allowed in this context": "a second `:` in one value, or a line indented wrongly",
    "did not find expected key": "this is no `key: value` where one must follow",
    "did not find expected '-' indicator": "this is no `- item` where one must follow",
    "found character that cannot start any token": "no value can begin with this character",
    "could not find expected ':'": "a `:` is missing after the key",
}


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
