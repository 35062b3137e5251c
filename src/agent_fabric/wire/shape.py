"""One thing as a JSON object: one definition for HTTP answers, the client, `--json` and the API's description.

A shape names the class and lists the keys. Types and descriptions come from the class itself.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cached_property
from operator import attrgetter
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.status import RunStatus

T = TypeVar("T")
Json = Mapping[str, Any]
Convert = Callable[[Any], Any]
_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
LISTS: Collection[Any] = (list, tuple, Sequence, frozenset, set)


def run_id_from(value: Any) -> RunId:
    """Return a run's id.

    Raises:
        ValueError: it is none; a file named after it could lie anywhere.
    """
    if not isinstance(value, str) or _RUN_ID.fullmatch(value) is None:
        raise ValueError(f"{value!r} is no id of a run")
    return RunId(value)


def status_from(value: Any) -> RunStatus:
    """Return the status of a run; one that only a newer server knows is not settled, and nothing for us to do."""
    try:
        return RunStatus(str(value))
    except ValueError:
        return RunStatus.WAITING


class Key(NamedTuple):
    """One key of an object."""

    name: str
    """Empty: the part at `path` is merged into the object."""
    path: tuple[str, ...]
    """The attributes that lead to its value."""
    empty_is_null: bool
    kind: Any
    """The type of the value."""
    holder: Any
    """The class whose source describes the last attribute."""


class Shape(Generic[T]):
    """How objects of one class are written as JSON, and read back.

    `keys` lists the keys in order; without it, the fields of the class are the keys. Each is `key`, or `key=attribute`
    where the names differ, or `key=part.attribute`. `key?` writes an empty value as null. `*part` merges the keys of a
    part, and leaves them out if the part is None.
    """

    def __init__(
        self,
        cls: type[T],
        keys: str = "",
        *,
        name: str = "",
        about: str = "",
        parts: Iterable["Shape[Any]"] = (),
        fixed: Mapping[str, Any] | None = None,
        also: Mapping[str, Any] | None = None,
        examples: Sequence[Any] = (),
    ) -> None:
        """Name a shape as the API's description calls it.

        `parts` are the shapes of what it consists of, `fixed` are keys whose value is always the same, `also` are types
        of keys that are added to the object after it was written; `key?` may be missing.
        """
        self.cls = cls
        self.name = name or cls.__name__
        self.about = about or (cls.__doc__ or "")
        self.parts = {part.cls: part for part in parts}
        self.fixed = dict(fixed or {})
        self.also = dict(also or {})
        self.examples = list(examples)
        self._listed = keys

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The keys, with the types of their values."""
        return tuple(self._key(each) for each in (self._listed.split() or _field_names(self.cls)))

    def dump(self, value: T) -> dict[str, Any]:
        """Return an object as JSON has it."""
        shown = dict(self.fixed)
        for name, get, write, empty_is_null in self._writers:
            found = get(value)
            if write is not None and found is not None:
                found = write(found)
            if name:
                shown[name] = found or None if empty_is_null else found
            elif found is not None:
                shown.update(found)
        return shown

    def load(self, shown: Json) -> T:
        """Return the object that was written.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it was none of this shape.
        """
        return self.cls(**self.values(shown))

    def values(self, shown: Json) -> dict[str, Any]:
        """Return the fields of the object that was written.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it was none of this shape.
        """
        values: dict[str, Any] = {}
        for key, attribute, read, null, required in self._readers:
            if required or key in shown:
                value = shown[key] if key else shown
                values[attribute] = null() if value is None and null else value if read is None else read(value)
        return values

    @cached_property
    def _writers(self) -> list[tuple[str, Convert, Convert | None, bool]]:
        return [(key.name, _getter(key.path), _writer(key.kind, self.parts), key.empty_is_null) for key in self.keys]

    @cached_property
    def _readers(self) -> list[tuple[str, str, Convert | None, Callable[[], Any] | None, bool]]:
        needed = _required_fields(self.cls)
        return [
            (key.name, key.path[0], _reader(key.kind, self.parts), _null(key), needed[key.path[0]])
            for key in self.keys
            if len(key.path) == 1 and key.path[0] in needed and (key.name or not _is_optional(key.kind))
        ]

    def _key(self, said: str) -> Key:
        name, _, path = said.rstrip("?").partition("=")
        merged = name.startswith("*")
        steps = (path or name.removeprefix("*")).split(".")
        holder: Any = self.cls
        kind: Any = None
        for nth, step in enumerate(steps):
            may_be_none = nth > 0 and _is_optional(kind)
            holder = self.cls if nth == 0 else _without_none(kind)
            kind = _type_of(holder, step)
            kind = kind | None if may_be_none else kind
        return Key("" if merged else name, tuple(steps), said.endswith("?"), kind, holder)


class Listing(Generic[T]):
    """A JSON object with one key, whose value is a list."""

    def __init__(self, key: str, item: Shape[T], *, name: str, about: str) -> None:
        self.key, self.item, self.name, self.about = key, item, name, about

    def dump(self, values: Iterable[T]) -> dict[str, Any]:
        """Return objects as JSON has them."""
        return {self.key: [self.item.dump(each) for each in values]}

    def load(self, shown: Json) -> list[T]:
        """Return the objects that were written."""
        return [self.item.load(each) for each in shown[self.key]]


def _field_names(cls: type) -> list[str]:
    return [each.name for each in fields(cls)] if is_dataclass(cls) else list(cls._fields)  # type: ignore[attr-defined] # else it is a NamedTuple


def _required_fields(cls: type) -> dict[str, bool]:
    """Tell of each field of a class whether it has no default."""
    if not is_dataclass(cls):
        return {name: name not in cls._field_defaults for name in _field_names(cls)}  # type: ignore[attr-defined] # as above
    return {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(cls)}


def _null(key: Key) -> Callable[[], Any] | None:
    """Return what makes the value that null stands for; None: there must not be a null."""
    if key.empty_is_null:
        kind: Callable[[], Any] = getattr(key.kind, "__supertype__", key.kind)
        return kind
    return NoneType if _is_optional(key.kind) else None


def _type_of(cls: Any, attribute: str) -> Any:
    known = getattr(cls, attribute, None)
    if isinstance(known, property):
        return get_type_hints(known.fget)["return"]
    return get_type_hints(cls)[attribute]


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    return kind


def _getter(path: tuple[str, ...]) -> Convert:
    first, *rest = path
    if not rest:
        return attrgetter(first)

    def get(value: Any) -> Any:
        found = getattr(value, first)
        for step in rest:
            if found is None:
                return None
            found = getattr(found, step)
        return found

    return get


def _writer(kind: Any, parts: Mapping[type, Shape[Any]]) -> Convert | None:
    """Return what makes JSON of a value that is not None; None: it is JSON already."""
    kind = _without_none(kind) if _is_optional(kind) else kind
    origin = get_origin(kind) or kind
    if origin in LISTS:
        each = _writer(get_args(kind)[0], parts)
        plain: Convert = sorted if origin in (frozenset, set) else list
        return plain if each is None else lambda values: plain(map(each, values))
    if origin in (dict, Mapping):
        write = _writer(get_args(kind)[1], parts)
        return dict if write is None else lambda values: {name: write(value) for name, value in values.items()}
    if not isinstance(origin, type):
        return None
    if issubclass(origin, Enum):
        return lambda value: getattr(value, "value", value)
    if issubclass(origin, PurePath):
        return str
    return part.dump if (part := part_of(origin, parts)) is not None else None


def _reader(kind: Any, parts: Mapping[type, Shape[Any]]) -> Convert | None:
    """Return what makes a value of JSON that is not null; None: it stays as it is."""
    kind = _without_none(kind) if _is_optional(kind) else kind
    if kind is RunId:
        return run_id_from
    if kind is RunStatus:
        return status_from
    origin = get_origin(kind) or kind
    if origin in LISTS:
        read = _reader(get_args(kind)[0], parts)
        make = origin if origin in (list, frozenset, set) else tuple
        return make if read is None else lambda values: make(map(read, values))
    if not isinstance(origin, type):
        return None
    if issubclass(origin, Enum | PurePath):
        return origin
    return part.load if (part := part_of(origin, parts)) is not None else None


def part_of(cls: type, parts: Mapping[type, Shape[Any]]) -> Shape[Any] | None:
    """Return the shape of a part: the one that was named, or for any other dataclass or named tuple all its fields."""
    if cls in parts:
        return parts[cls]
    return Shape(cls, parts=parts.values()) if is_dataclass(cls) or hasattr(cls, "_fields") else None


def _is_optional(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind) and len(get_args(kind)) == 2
