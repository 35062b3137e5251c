"""Filters on one value: those that turn it into another kind, and those on numbers and texts."""

import json
import math
import shlex
from collections.abc import Callable
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, kind_of, shorten
from agent_fabric.domain.definitions.expressions.limits import Evaluation, integer
from agent_fabric.domain.definitions.expressions.operators import is_number, text_of, truth
from agent_fabric.domain.tools.json_schema import MAX_DEPTH, too_deep

MAX_WIDTH = 200
MAX_DIGITS = 15
MAX_INDENT = 8

_NOT_GIVEN = object()
_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0", "none", "null", ""})


def _default(_: Evaluation, value: Any, other: Any = "", also_if_empty: Any = False) -> Any:
    # That a value is missing was found out before; here it is there.
    return other if value is None or (truth(also_if_empty) and not truth(value)) else value


def _string(at: Evaluation, value: Any) -> str:
    return text_of(at, value)


def _int(at: Evaluation, value: Any, default: Any = _NOT_GIVEN) -> Any:
    try:
        if isinstance(value, str):
            at.work_on(len(value))
            return integer(int(value.strip(), 10))
        if isinstance(value, int | float):
            return integer(int(value))
    except (ValueError, OverflowError) as error:
        if default is _NOT_GIVEN and isinstance(error, ExpressionError):
            raise
    return _otherwise(default, value, "a whole number")


def _float(at: Evaluation, value: Any, default: Any = _NOT_GIVEN) -> Any:
    try:
        if isinstance(value, str | int | float):
            at.work_on(len(value) if isinstance(value, str) else 0)
            number = float(value)
            if math.isfinite(number):
                return number
    except (ValueError, OverflowError):
        pass
    return _otherwise(default, value, "a number")


def _bool(at: Evaluation, value: Any) -> bool:
    if not isinstance(value, str):
        return truth(value)
    at.work_on(len(value))
    word = value.strip().lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise ExpressionError(f"'{shorten(value)}' is neither true nor false")


def _round(_: Evaluation, value: Any, digits: Any = 0) -> Any:
    if not is_number(value) or not isinstance(digits, int) or not 0 <= digits <= MAX_DIGITS:
        raise ExpressionError(f"needs a number, and 0 to {MAX_DIGITS} digits")
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        raise ExpressionError("needs a number that can be written down")
    return round(value, digits) if digits else integer(round(value))


def _abs(_: Evaluation, value: Any) -> Any:
    if not is_number(value):
        raise ExpressionError(f"needs a number, not {kind_of(value)}")
    return abs(value)


def _json(at: Evaluation, value: Any, indent: Any = 0) -> str:
    if not isinstance(indent, int) or not 0 <= indent <= MAX_INDENT:
        raise ExpressionError(f"'indent' is a number from 0 to {MAX_INDENT}")
    return at.json(value, indent or None)


def _from_json(at: Evaluation, value: Any) -> Any:
    if not isinstance(value, str):
        raise ExpressionError(f"reads text, not {kind_of(value)}")
    at.work_on(len(value))
    at.spend(value.count(",") + value.count("[") + value.count("{"))
    try:
        read = json.loads(value, parse_constant=_refuse, parse_int=lambda digits: integer(int(digits)))
        if "\\u" in value:
            json.dumps(read, ensure_ascii=False).encode()
    except ExpressionError:
        raise
    except json.JSONDecodeError as error:
        raise ExpressionError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except UnicodeEncodeError:
        raise ExpressionError("not JSON: it holds half a character") from None
    except (ValueError, RecursionError):
        raise ExpressionError("not JSON that can be used here") from None
    if too_deep(read, value):
        raise ExpressionError(f"nests deeper than {MAX_DEPTH} levels")
    return read


def _quote(at: Evaluation, value: Any) -> str:
    text = text_of(at, value)
    at.make(5 * len(text) if "'" in text else len(text) + 2)
    return shlex.quote(text)


def _refuse(name: str) -> None:
    raise ExpressionError(f"not JSON: {name} is no number")


def _otherwise(default: Any, value: Any, wanted: str) -> Any:
    if default is not _NOT_GIVEN:
        return default
    what = f"'{shorten(value)}'" if isinstance(value, str) else kind_of(value)
    raise ExpressionError(f"{what} is not {wanted}", hint="Give a value for this case in brackets: int(0).")


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
    "default": _default,
    "d": _default,
    "string": _string,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "round": _round,
    "abs": _abs,
    "json": _json,
    "tojson": _json,
    "from_json": _from_json,
    "quote": _quote,
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
