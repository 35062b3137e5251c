"""Builds dataclasses from plain data, by the types of their fields: events from logs, definitions from files."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Read = Callable[[Any], Any]


@cache
def reader_of(cls: Any, *, of_file: bool = False) -> Read:
    """Return the function that builds a class from a mapping; keys that it does not know are ignored.

    A class with a method `from_plain` builds itself. Metadata of a field may give its `key`, where the names differ,
    and a function that is to `read` it.

    Args:
        cls: A dataclass.
        of_file: The data was written by people: nothing means the default, and a whole number may stand for any.
    """
    if (own := getattr(cls, "from_plain", None)) is not None:
        read_own: Read = own
        return read_own
    hints = get_type_hints(cls)
    keys: dict[str, str] = {}
    reads: dict[str, Read] = {}
    for each in fields(cls):
        key = each.metadata.get("key", each.name)
        keys[key] = each.name
        if (read_field := each.metadata.get("read") or _read(hints[each.name], of_file)) is not None:
            reads[key] = read_field
    dropped = {key for key, name in keys.items() if of_file and hints[name] is not Any}
    """Keys under which None means the default."""

    def read(plain: Mapping[str, Any]) -> Any:
        values: dict[str, Any] = {}
        for key, value in plain.items():
            name = keys.get(key)
            if name is not None and (value is not None or key not in dropped):
                convert = reads.get(key)
                values[name] = value if convert is None else convert(value)
        return cls(**values)

    return read


def _read(hint: Any, of_file: bool) -> Read | None:
    """Return the function that makes a value of a type; None: the value stays as it is."""
    hint = getattr(hint, "__supertype__", hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _read_one_of([each for each in inner if each is not NoneType], of_file)
    if origin is tuple:
        each = _read(inner[0], of_file)
        return _tuple if each is None else lambda values: tuple(map(each, values))
    if origin is Mapping:
        value = _read(inner[1], of_file)
        return None if value is None else lambda plain: {key: value(item) for key, item in plain.items()}
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Enum):
        return hint
    if hint is float and of_file:
        return float
    if not is_dataclass(hint):
        return None
    return lambda plain: reader_of(hint, of_file=of_file)(plain)  # noqa: PLW0108 - late: a step holds steps


def _read_one_of(hints: list[Any], of_file: bool) -> Read | None:
    if len(hints) == 1:
        read = _read(hints[0], of_file)
        return None if read is None else lambda value: None if value is None else read(value)
    return lambda value: tuple(value) if isinstance(value, list) else value


def _tuple(values: Any) -> tuple[Any, ...]:
    return (values,) if isinstance(values, str) else tuple(values)
