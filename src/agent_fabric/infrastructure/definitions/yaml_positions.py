"""Reads YAML, and tells where everything stands."""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from agent_fabric.config.formats.syntax import SyntaxProblem, TwiceProblem
from agent_fabric.config.formats.yaml_text import problem_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.validate import MAX_VALUES
from agent_fabric.domain.tools.json_schema import MAX_DEPTH
from agent_fabric.infrastructure.definitions.positions import Refused, Spot, Spots

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
