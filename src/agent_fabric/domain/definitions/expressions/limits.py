"""How much one evaluation may do and make.

Counted, never timed: the same expression over the same values is refused on every machine, or on none. An operation is
one part of an expression, one item of a list or 64 characters of text.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError

MAX_EXPRESSION_CHARS = 10_000
MAX_TEMPLATE_CHARS = 1_000_000
MAX_TEMPLATE_TOKENS = 20_000
"""Names, values and symbols in all the braces of one template."""
MAX_DEPTH = 32
"""Of brackets, of parts within parts, of blocks within blocks."""
MAX_VALUE_DEPTH = 100
"""Of lists and mappings, with expressions in them or as their values."""
MAX_OPERATIONS = 500_000
MAX_CHARS = 4_000_000
"""Of one text that an expression or a template makes."""
MAX_RESULT_CHARS = 16_000_000
"""Of everything that one evaluation gives, written as JSON."""
MAX_INTEGER = 2**63 - 1
"""What databases and other JSON libraries keep exactly."""

_CHARS_PER_OPERATION_BITS = 6
_CHARS_OF_A_SCALAR = 8
_SCALARS = frozenset({int, float, bool, type(None)})


class Evaluation:
    """What one evaluation sees, and what it may still spend."""

    __slots__ = ("checked", "left", "local", "scope")

    def __init__(self, scope: Mapping[str, Any], checked: Callable[[str, Any], Any] | None = None) -> None:
        self.scope = scope
        self.checked = checked
        """Given a text and what it came to; returns what is taken."""
        self.local: dict[str, Any] = {}
        """Names that loops have bound."""
        self.left = MAX_OPERATIONS

    def spend(self, operations: int) -> None:
        """Count operations before they are done."""
        self.left -= operations
        if self.left < 0:
            raise ExpressionError(
                f"needs more than {MAX_OPERATIONS:,} operations", hint="Do the heavy part in a command or an agent."
            )

    def work_on(self, chars: int) -> None:
        """Count work on a text that is there already."""
        self.spend((chars >> _CHARS_PER_OPERATION_BITS) + 1)

    def make(self, chars: int) -> None:
        """Count a text that is about to be made."""
        if chars > MAX_CHARS:
            raise ExpressionError(
                f"makes a text of more than {MAX_CHARS:,} characters", hint="Pass large texts on in files."
            )
        self.work_on(chars)

    def weigh(self, value: Any) -> int:
        """Return about how many characters a value has as JSON, and count the work of looking at all of it."""
        if type(value) is str:
            total = len(value)
        elif type(value) in _SCALARS:
            return _CHARS_OF_A_SCALAR
        elif isinstance(value, list | tuple | dict | Mapping):
            total, _ = self._weigh_all(value)
        else:
            return _CHARS_OF_A_SCALAR
        if total > MAX_RESULT_CHARS:
            raise _too_large()
        self.work_on(total)
        return total

    def json(self, value: Any, indent: int | None = None) -> str:
        """Return a value as JSON text."""
        chars, depth = self._weigh_all([value])
        self.make(chars + (chars // _CHARS_OF_A_SCALAR) * (indent or 0) * depth)
        try:
            text = json.dumps(value, ensure_ascii=False, indent=indent)
        except (RecursionError, TypeError, ValueError):
            raise ExpressionError("the value cannot be written as JSON") from None
        self.make(len(text))
        return text

    @staticmethod
    def _weigh_all(value: Any) -> tuple[int, int]:
        # Level by level, and with an end: loops can make small values whose parts share each other endlessly.
        total, depth, level = 0, 0, [value]
        while level:
            depth += 1
            if depth > MAX_VALUE_DEPTH:
                raise ExpressionError(f"the value nests deeper than {MAX_VALUE_DEPTH} levels")
            total += _CHARS_OF_A_SCALAR * (len(level) + sum(map(len, level)))
            if total > MAX_RESULT_CHARS:
                raise _too_large()
            items: list[Any] = []
            for each in level:
                if isinstance(each, list | tuple):
                    items.extend(each)
                else:
                    total += sum(map(len, map(str, each)))
                    items.extend(each.values())
            kinds = set(map(type, items)) - _SCALARS
            if str in kinds:
                total += sum(len(item) for item in items if type(item) is str)
            containers = tuple(kind for kind in kinds if issubclass(kind, list | tuple | dict | Mapping))
            level = [item for item in items if isinstance(item, containers)] if containers else []
        return total, depth


def integer(value: int) -> int:
    """Return a whole number that was just computed.

    Raises:
        ExpressionError: it is too large.
    """
    if -MAX_INTEGER <= value <= MAX_INTEGER:
        return value
    raise ExpressionError("the number is too large: whole numbers go up to 9,223,372,036,854,775,807")


def _too_large() -> ExpressionError:
    return ExpressionError(
        f"gives a value of more than {MAX_RESULT_CHARS:,} characters", hint="Pass large values on in files."
    )
