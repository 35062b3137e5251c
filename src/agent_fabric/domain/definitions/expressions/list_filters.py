"""Filters on lists and mappings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, first_names, kind_of, shorten
from agent_fabric.domain.definitions.expressions.limits import Evaluation
from agent_fabric.domain.definitions.expressions.operators import arithmetic, have_order, is_number, text_of

MAX_PATH_CHARS = 200
_COMPARISONS_PER_ITEM_BITS = 4
"""Sorting looks at every item several times: 16 characters of it count as an operation, not 64."""


def items_of(at: Evaluation, value: Any) -> Sequence[Any]:
    """Return the items that a filter or a loop goes through: those of a list, or the keys of a mapping."""
    if isinstance(value, Mapping):
        value = list(value)
    if not isinstance(value, list | tuple):
        hint = "Make a list of a text with | lines, | split(',') or | from_json." if isinstance(value, str) else ""
        raise ExpressionError(f"needs a list, not {kind_of(value)}", hint=hint)
    at.spend(len(value) + 1)
    return value


def by_attribute(
    at: Evaluation, items: Sequence[Any], path: Any, default: Any = None, *, optional: bool = False
) -> list[Any]:
    """Return a field of each item; dots in the path lead deeper.

    Raises:
        ExpressionError: it is missing, and there is neither a default nor is it optional.
    """
    if not isinstance(path, str) or len(path) > MAX_PATH_CHARS:
        raise ExpressionError(f"'attribute' is the name of a field, of at most {MAX_PATH_CHARS} characters")
    parts = path.split(".")
    at.spend(len(parts) * len(items))
    found = []
    for item in items:
        value = item
        for part in parts:
            if (type(value) is dict or isinstance(value, Mapping)) and part in value:
                value = value[part]
            elif isinstance(value, list | tuple) and part.isdecimal() and len(part) < 10 and int(part) < len(value):
                value = value[int(part)]
            elif default is not None or optional:
                value = default
                break
            else:
                there = f" (it has: {first_names(value, len(value))})" if isinstance(value, Mapping) else ""
                raise ExpressionError(f"an item has no field '{shorten(part)}'{there}", missing=tuple(parts))
        found.append(value)
    return found


def _length(_: Evaluation, value: Any) -> int:
    if not isinstance(value, str | list | tuple | Mapping):
        raise ExpressionError(f"{kind_of(value)} has no length")
    return len(value)


def _join(at: Evaluation, value: Any, separator: Any = "", attribute: Any = None) -> str:
    items = _values(at, value, attribute)
    between = text_of(at, separator)
    total = len(between) * len(items)
    texts = []
    for each in items:
        texts.append(text_of(at, each))
        total += len(texts[-1])
        if total > at.left << 6:
            break  # refused below, before the rest is even written
    at.make(total)
    return between.join(texts)


def _first(at: Evaluation, value: Any) -> Any:
    return _end(at, value, 0, "first")


def _last(at: Evaluation, value: Any) -> Any:
    return _end(at, value, -1, "last")


def _end(at: Evaluation, value: Any, index: int, name: str) -> Any:
    items = value if isinstance(value, str | list | tuple) else items_of(at, value)
    if not items:
        raise ExpressionError(f"there is no {name} item: it is empty", missing=(name,))
    return items[index]


def _sort(at: Evaluation, value: Any, reverse: Any = False, attribute: Any = None) -> list[Any]:
    items = items_of(at, value)
    keys = _comparable(at, items, attribute)
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))
    return [items[place] for place in order]


def _unique(at: Evaluation, value: Any, attribute: Any = None) -> list[Any]:
    items = items_of(at, value)
    seen: set[tuple[bool, Any]] = set()
    kept = []
    for each, key in zip(items, _values(at, items, attribute), strict=True):
        plain = isinstance(key, str | int | float) or key is None
        mark = (isinstance(key, bool), key) if plain else (True, at.json(key))
        if mark not in seen:
            seen.add(mark)
            kept.append(each)
    return kept


def _reverse(at: Evaluation, value: Any) -> Any:
    if isinstance(value, str):
        at.make(len(value))
        return value[::-1]
    return list(reversed(items_of(at, value)))


def _sum(at: Evaluation, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    total = start
    for each in _values(at, value, attribute):
        if not is_number(each):
            raise ExpressionError(f"adds numbers, not {kind_of(each)}")
        total = arithmetic(at, "+", total, each)
    return total


def _min(at: Evaluation, value: Any, attribute: Any = None) -> Any:
    return _end(at, _sort(at, value, attribute=attribute), 0, "smallest")


def _max(at: Evaluation, value: Any, attribute: Any = None) -> Any:
    return _end(at, _sort(at, value, attribute=attribute), -1, "largest")


def _list(at: Evaluation, value: Any) -> list[Any]:
    if isinstance(value, str):
        at.spend(len(value))
        return list(value)
    return list(items_of(at, value))


def _slice(at: Evaluation, value: Any, start: Any, stop: Any) -> Any:
    if not all(isinstance(end, int) or end is None for end in (start, stop)):
        raise ExpressionError("the ends are whole numbers or none")
    return value[start:stop] if isinstance(value, str) else list(items_of(at, value)[start:stop])


def _keys(at: Evaluation, value: Any) -> list[Any]:
    return list(_mapping(at, value))


def _mapped_values(at: Evaluation, value: Any) -> list[Any]:
    return list(_mapping(at, value).values())


def _items(at: Evaluation, value: Any) -> list[Any]:
    return [[key, each] for key, each in _mapping(at, value).items()]


def _mapping(at: Evaluation, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ExpressionError(f"needs a mapping, not {kind_of(value)}")
    at.spend(len(value) + 1)
    return value


def _values(at: Evaluation, value: Any, attribute: Any) -> Sequence[Any]:
    items = items_of(at, value)
    return items if attribute is None else by_attribute(at, items, attribute)


def _comparable(at: Evaluation, items: Sequence[Any], attribute: Any) -> Sequence[Any]:
    keys = _values(at, items, attribute)
    for each in keys:
        if type(each) is not type(keys[0]) and not have_order(keys[0], each):
            raise ExpressionError(
                f"{kind_of(keys[0])} and {kind_of(each)} have no order",
                hint="Only numbers or only texts can be sorted.",
            )
    if keys and not have_order(keys[0], keys[0]):
        raise ExpressionError(
            f"{kind_of(keys[0])} has no order", hint="Name a field of mappings: sort(attribute='name')."
        )
    at.spend(at.weigh(keys) >> _COMPARISONS_PER_ITEM_BITS)
    return keys


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "length": _length,
    "count": _length,
    "join": _join,
    "first": _first,
    "last": _last,
    "sort": _sort,
    "unique": _unique,
    "reverse": _reverse,
    "sum": _sum,
    "min": _min,
    "max": _max,
    "list": _list,
    "slice": _slice,
    "keys": _keys,
    "values": _mapped_values,
    "items": _items,
}
