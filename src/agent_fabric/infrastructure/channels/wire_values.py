"""Ids and numbers in what platforms send. Whatever stands there instead of one must not end a channel.

What cannot be read would come again and again: it is never acknowledged, and everything behind it waits.
"""

import math
from collections.abc import Mapping
from typing import Any


def id_in(value: Any) -> str:
    """Return an id; empty: it is none. A sender without one would be the same person as every other such sender."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    return value if isinstance(value, str) else str(value) if abs(value) < 1 << 64 else ""


def number_in(value: Any, otherwise: float = 0.0) -> float:
    """Return a number, also one that is written as text; what is none, or endless, is `otherwise`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return otherwise
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return otherwise
    return number if math.isfinite(number) else otherwise


def table_in(value: Any) -> Mapping[str, Any]:
    """Return a table; what is none counts as an empty one."""
    return value if isinstance(value, Mapping) else {}


def tables_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the tables of a list; all else is left out."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
