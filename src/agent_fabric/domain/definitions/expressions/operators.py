"""What `+`, `<`, `in` and the others do; each refuses what would be too large before it makes it."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, kind_of
from agent_fabric.domain.definitions.expressions.limits import Evaluation, integer

MAX_EXPONENT = 1_000
_TALLEST_BITS = 64


def truth(value: Any) -> bool:
    """Tell what a value counts as in a condition: false, none, 0 and everything empty are false."""
    return bool(value)


def text_of(at: Evaluation, value: Any) -> str:
    """Return a value as it stands in a text: none as nothing, booleans in small letters, lists and mappings as JSON."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(integer(value))
        case float():
            return str(value)
        case _:
            return at.json(value)


def arithmetic(at: Evaluation, symbol: str, left: Any, right: Any) -> Any:
    """Compute with two values.

    Raises:
        ExpressionError: these two do not go together, or the result is too large.
    """
    if is_number(left) and is_number(right):
        return _compute(symbol, left, right)
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        at.make(len(left) + len(right))
        return left + right
    if symbol == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
        at.spend(len(left) + len(right))
        return [*left, *right]
    if symbol == "*" and isinstance(left, str | list | tuple) and isinstance(right, int) and is_number(right):
        times = max(right, 0)
        if isinstance(left, str):
            at.make(len(left) * times)
            return left * times
        at.spend(len(left) * times)
        return list(left) * times
    hint = "Write ~ to join values to one text." if symbol == "+" else "Turn text into a number with | int or | float."
    raise ExpressionError(f"'{symbol}' does not work with {kind_of(left)} and {kind_of(right)}", hint=hint)


def negative(value: Any) -> Any:
    """Return a number with the other sign."""
    if not is_number(value):
        raise ExpressionError(f"'-' needs a number, not {kind_of(value)}")
    return -value


def compare(at: Evaluation, symbol: str, left: Any, right: Any) -> bool:
    """Compare two values.

    Raises:
        ExpressionError: there is no order between these two.
    """
    if symbol == "in":
        return contains(at, right, left)
    if symbol == "not in":
        return not contains(at, right, left)
    if symbol in ("==", "!="):
        return equal(at, left, right) is (symbol == "==")
    if not have_order(left, right):
        raise ExpressionError(
            f"'{symbol}' does not work with {kind_of(left)} and {kind_of(right)}",
            hint="Only two numbers or two texts have an order. Turn text into a number with | int or | float.",
        )
    if isinstance(left, str):
        at.work_on(min(len(left), len(right)))
    return bool(_ORDERS[symbol](left, right))


def equal(at: Evaluation, left: Any, right: Any) -> bool:
    """Tell whether two values are the same."""
    if isinstance(left, str | list | tuple | dict) and type(left) is type(right):
        if len(left) != len(right):
            return False
        at.weigh(left)
        at.weigh(right)
    try:
        return bool(left == right)
    except RecursionError:
        raise ExpressionError("the values nest too deep to be compared") from None


def contains(at: Evaluation, whole: Any, part: Any) -> bool:
    """Tell whether a text holds a text, a list an item or a mapping a key."""
    if isinstance(whole, str):
        if not isinstance(part, str):
            raise ExpressionError(f"'in' looks for text in text, not for {kind_of(part)}")
        at.work_on(len(whole))
        return part in whole
    if isinstance(whole, Mapping):
        return isinstance(part, str) and part in whole
    if isinstance(whole, list | tuple):
        at.spend(len(whole) * (1 + (at.weigh(part) >> 6)))
        if not isinstance(part, list | tuple | Mapping):
            return part in whole
        return any(equal(at, each, part) for each in whole)
    raise ExpressionError(f"'in' needs a list, a mapping or a text behind it, not {kind_of(whole)}")


def is_number(value: Any) -> bool:
    """Tell whether one can compute with a value; booleans are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def have_order(left: Any, right: Any) -> bool:
    """Tell whether `<` works with two values."""
    return (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str))


def _compute(symbol: str, left: float, right: float) -> int | float:
    if symbol in ("/", "//", "%") and not right:
        raise ExpressionError(f"'{symbol}' by zero")
    if symbol == "**":
        _check_power(left, right)
    try:
        result = _ARITHMETIC[symbol](left, right)
    except (OverflowError, ZeroDivisionError):
        raise ExpressionError(f"'{symbol}' gives no number that can be written down") from None
    if isinstance(result, int):
        return integer(result)
    if not isinstance(result, float) or not math.isfinite(result):
        raise ExpressionError(f"'{symbol}' gives no number that can be written down")
    return result


def _check_power(base: float, exponent: float) -> None:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and exponent > 0 and (int(base).bit_length() - 1) * exponent > _TALLEST_BITS:
        raise ExpressionError("'**' gives a number that is too large")
    if abs(exponent) > MAX_EXPONENT:
        raise ExpressionError(f"the exponent of '**' may be at most {MAX_EXPONENT:,}")


_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
