"""What stands behind a value: `.field`, `[index]`, `| filter`, `is test`; and what to say when it leads nowhere.

A chain is walked in a loop, so its length needs no stack. When something is missing, the walk goes on at the next part
that can do without it, `default` or `is defined`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, first_names, kind_of, shorten
from agent_fabric.domain.definitions.expressions.filters import apply_filter
from agent_fabric.domain.definitions.expressions.limits import MAX_INTEGER, Evaluation
from agent_fabric.domain.definitions.expressions.value_tests import CHECKS, DEFINED

DEFAULTS = frozenset({"default", "d"})


class Node(Protocol):
    """A part of an expression."""

    def value(self, at: Evaluation) -> Any:
        """Return what it stands for.

        Raises:
            ExpressionError: it has no value here.
        """
        ...


class Index(NamedTuple):
    """`[index]` or `[key]`."""

    key: Node
    constant: str | None
    """The key as a part of a path, if it is written down."""


class Slice(NamedTuple):
    """`[start:stop:stride]`."""

    ends: tuple[Node | None, Node | None, Node | None]


class Filtered(NamedTuple):
    """`| name(arguments)`."""

    name: str
    arguments: tuple[Node, ...]
    named: tuple[tuple[str, Node], ...]


class Tested(NamedTuple):
    """`is name` or `is not name`."""

    name: str
    arguments: tuple[Node, ...]
    negated: bool


Step = str | Index | Slice | Filtered | Tested
"""A plain string is a field."""


def walk(base: Node, steps: tuple[Step, ...], at: Evaluation) -> Any:
    """Return what the chain leads to.

    Raises:
        ExpressionError: something is missing and nothing behind it can do without it, or does not fit.
    """
    place = 0
    value: Any = None
    missing: ExpressionError | None = None
    try:
        value = base.value(at)
    except ExpressionError as error:
        missing, place = error, _next_catch(steps, 0, error)
    while place < len(steps):
        step = steps[place]
        try:
            if isinstance(step, str):
                value = (
                    value[step] if type(value) is dict and step in value else _field(value, step, base, steps, place)
                )
            else:
                value = _apply(step, value, missing, at, base, steps, place)
                missing = None
        except ExpressionError as error:
            missing, place = error, _next_catch(steps, place + 1, error)
        else:
            place += 1
    return value


def catches(step: Step) -> bool:
    """Tell whether a part can do without the value in front of it."""
    return (isinstance(step, Filtered) and step.name in DEFAULTS) or (isinstance(step, Tested) and step.name in DEFINED)


def _next_catch(steps: tuple[Step, ...], start: int, error: ExpressionError) -> int:
    if error.missing is not None:
        for place in range(start, len(steps)):
            if catches(steps[place]):
                return place
    raise error


def _apply(
    step: Index | Slice | Filtered | Tested,
    value: Any,
    missing: ExpressionError | None,
    at: Evaluation,
    base: Node,
    steps: tuple[Step, ...],
    place: int,
) -> Any:
    match step:
        case Filtered():
            front = None if missing is not None else value
            given = [each.value(at) for each in step.arguments]
            return apply_filter(at, step.name, front, given, {name: each.value(at) for name, each in step.named})
        case Index():
            return _item(value, step.key.value(at), base, steps, place)
        case Slice():
            return _part(at, value, [None if end is None else end.value(at) for end in step.ends])
        case Tested():
            if step.name in DEFINED:
                return (missing is None) is ((step.name == "defined") is not step.negated)
            arguments = [each.value(at) for each in step.arguments]
            return CHECKS[step.name].holds(at, value, *arguments) is not step.negated


def _item(value: Any, key: Any, base: Node, steps: tuple[Step, ...], place: int) -> Any:
    if isinstance(key, str):
        return _field(value, key, base, steps, place)
    if not isinstance(key, int) or isinstance(key, bool) or abs(key) > MAX_INTEGER:
        raise ExpressionError(f"an index is a whole number or a text, not {kind_of(key)}")
    if isinstance(value, str | list | tuple):
        if -len(value) <= key < len(value):
            return value[key]
        path = _path(base, steps, place)
        count = f"{len(value)} {'characters' if isinstance(value, str) else 'items'}"
        raise ExpressionError(f"{_quote(path)} has no item {key}: it has {count}", missing=(*path, str(key)))
    return _field(value, str(key), base, steps, place)


def _field(value: Any, name: str, base: Node, steps: tuple[Step, ...], place: int) -> Any:
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        why = f"has no field '{shorten(name)}' (it has: {first_names(value, len(value))})"
    elif isinstance(value, list | tuple):
        if name.isdecimal() and len(name) < 10:
            return _item(value, int(name), base, steps, place)
        why = f"is a list, so it has no field '{shorten(name)}'; write [0] for the first item, or | map(attribute='…')"
    else:
        why = f"is {kind_of(value)}, so it has no field '{shorten(name)}'"
    path = _path(base, steps, place)
    raise ExpressionError(f"{_quote(path)} {why}", missing=(*path, name))


def _part(at: Evaluation, value: Any, ends: list[Any]) -> Any:
    if not isinstance(value, str | list | tuple):
        raise ExpressionError(f"only lists and texts have parts [a:b], not {kind_of(value)}")
    if any(end is not None and (not isinstance(end, int) or isinstance(end, bool)) for end in ends) or ends[2] == 0:
        raise ExpressionError("the ends of [a:b] are whole numbers")
    if isinstance(value, str):
        at.make(len(value))
        return value[slice(*ends)]
    at.spend(len(value))
    return list(value[slice(*ends)])


def path_of(base: Node, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return the path that the beginning of a chain spells; empty if it does not begin with a name."""
    name = getattr(base, "name", None)
    if not isinstance(name, str):
        return ()
    path = [name]
    for step in steps:
        if isinstance(step, Index) and step.constant is not None:
            path.append(step.constant)
        elif isinstance(step, str):
            path.append(step)
        else:
            break
    return tuple(path)


def _path(base: Node, steps: tuple[Step, ...], place: int) -> tuple[str, ...]:
    path = path_of(base, steps[:place])
    return path if len(path) == place + 1 else ()


def _quote(path: tuple[str, ...]) -> str:
    return f"'{shorten('.'.join(path))}'" if path else "the value"
