"""Filters on texts."""

from collections.abc import Callable
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, kind_of
from agent_fabric.domain.definitions.expressions.limits import Evaluation
from agent_fabric.domain.definitions.expressions.operators import text_of

MAX_WIDTH = 200


def _text_filter(change: Callable[[str], str]) -> Callable[[Evaluation, Any], str]:
    def apply(at: Evaluation, value: Any) -> str:
        text = _text(at, value)
        at.make(len(text))
        return change(text)

    return apply


def _trim(at: Evaluation, value: Any, characters: Any = None) -> str:
    text = _text(at, value)
    at.make(len(text))
    if characters is not None and (not isinstance(characters, str) or len(characters) > MAX_WIDTH):
        raise ExpressionError(f"the characters to leave out are a text of at most {MAX_WIDTH}")
    return text.strip(characters)


def _replace(at: Evaluation, value: Any, old: Any, new: Any) -> str:
    text, old, new = _text(at, value), _text(at, old), _text(at, new)
    if not old:
        raise ExpressionError("there must be something to replace")
    at.work_on(len(text))
    at.make(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _split(at: Evaluation, value: Any, separator: Any = None) -> list[str]:
    text = _text(at, value)
    at.make(len(text))
    if separator is None:
        parts = text.split(None, at.left)
        at.spend(len(parts))
        return parts
    if not isinstance(separator, str) or not separator:
        raise ExpressionError("the separator is a text that is not empty")
    at.spend(text.count(separator) + 1)
    return text.split(separator)


def _lines(at: Evaluation, value: Any) -> list[str]:
    text = _text(at, value)
    at.make(len(text))
    at.spend(text.count("\n") + 1)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _truncate(at: Evaluation, value: Any, length: Any = 255, end: Any = "...") -> str:
    text, mark = _text(at, value), _text(at, end)
    if not isinstance(length, int) or length < 0:
        raise ExpressionError("the length is a whole number")
    if len(text) <= length:
        return text
    at.make(length)
    return (text[: max(length - len(mark), 0)] + mark)[:length]


def _indent(at: Evaluation, value: Any, width: Any = 4, first: Any = False) -> str:
    text = _text(at, value)
    if not isinstance(width, int) or not 0 <= width <= MAX_WIDTH:
        raise ExpressionError(f"the width is a number from 0 to {MAX_WIDTH}")
    margin = " " * width
    count = text.count("\n") + 1
    at.spend(count)
    at.make(len(text) + count * width)
    lines = [margin + line if line else line for line in text.split("\n")]
    indented = "\n".join(lines)
    return indented if first or not text or text[0] == "\n" else indented[width:]


def _matches(at: Evaluation, value: Any, pattern: Any) -> bool:
    """Tell whether a text fits a pattern in which `*` is any text and `?` one character."""
    text, pattern = _text(at, value), _text(at, pattern)
    at.spend((len(text) + 1) * (pattern.count("*") + 1) + len(pattern))
    in_text = in_pattern = 0
    star, resumed = -1, 0
    # Greedy, with one place to go back to: the latest star. What an earlier one could take, a later one can as well.
    while in_text < len(text):
        wanted = pattern[in_pattern] if in_pattern < len(pattern) else ""
        if wanted == "*":
            star, resumed = in_pattern, in_text
            in_pattern += 1
        elif wanted and wanted in ("?", text[in_text]):
            in_text, in_pattern = in_text + 1, in_pattern + 1
        elif star >= 0:
            resumed += 1
            at.spend(in_pattern - star)
            in_text, in_pattern = resumed, star + 1
        else:
            return False
    return not pattern[in_pattern:].strip("*")


def _text(at: Evaluation, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, list | tuple | dict):
        raise ExpressionError(f"works on text, not on {kind_of(value)}", hint="Write | string or | json before it.")
    return text_of(at, value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "upper": _text_filter(str.upper),
    "lower": _text_filter(str.lower),
    "title": _text_filter(str.title),
    "capitalize": _text_filter(str.capitalize),
    "trim": _trim,
    "strip": _trim,
    "replace": _replace,
    "split": _split,
    "lines": _lines,
    "truncate": _truncate,
    "indent": _indent,
    "matches": _matches,
}
