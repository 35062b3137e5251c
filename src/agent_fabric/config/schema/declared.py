"""The form in which settings are declared, and read where they are right: a small part of pydantic's, by its names.

Pydantic takes 150 ms to import and to build the whole configuration, which each command would pay. So what is right is
read here. What is not certainly right goes to pydantic models made of the same declarations (`twins`): they decide, and
explain. A test reads generated configurations both ways.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

Read = Callable[[Any], Any]
"""Returns a value as a setting holds it, or raises `Unsure` or what a check raises."""


class Unsure(ValueError):
    """A value is not certainly right."""


class Finding(NamedTuple):
    """What a check of a whole group found wrong with one setting."""

    kind: str
    message: str
    path: tuple[str, ...]
    value: object


class Refused(ValueError):
    """A check of a whole group found something wrong with single settings."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(", ".join(finding.message for finding in findings))
        self.findings = findings


class AfterValidator(NamedTuple):
    """A function that checks a value that has been read, and may change it."""

    func: Callable[[Any], Any]


class BeforeValidator(NamedTuple):
    """A function that may change a value before it is read."""

    func: Callable[[Any], Any]


class Strict(NamedTuple):
    """Whether only a value of exactly the type is taken; lists are lists in files, and tuples here."""

    strict: bool


class StringConstraints(NamedTuple):
    """Limits of a text."""

    min_length: int | None = None
    pattern: str | None = None


_NO_DEFAULT: Final[Any] = ...


class Limits(NamedTuple):
    """What `Field` was given: limits of a value, and its default."""

    default: Any = _NO_DEFAULT
    default_factory: Callable[[], Any] | None = None
    validate_default: bool | None = None
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    repr: bool = True


def Field(default: Any = _NO_DEFAULT, **options: Any) -> Any:  # noqa: N802 - as pydantic calls it
    """Return the limits of a setting, in its annotation or in place of its default."""
    return Limits(default, **options)


_Check = TypeVar("_Check", bound=Callable[..., Any])


def model_validator(*, mode: Literal["after"]) -> Callable[[_Check], _Check]:
    """Return what marks a method as a check of the whole group, once each of its settings is right."""

    def mark(check: _Check) -> _Check:
        vars(check)["checked_when"] = mode
        return check

    return mark


class DeclaredField:
    """One setting of a group."""

    def __init__(self, declared: Any, default: Any) -> None:
        """Take the annotation, and what the class body assigns."""
        limits = default if isinstance(default, Limits) else Limits(default)
        is_annotated = get_origin(declared) is Annotated
        self.declared = declared
        self.annotation: Any = declared.__origin__ if is_annotated else declared
        self.metadata: tuple[Any, ...] = declared.__metadata__ if is_annotated else ()
        if isinstance(default, Limits):
            self.metadata += (limits,)
        self.limits = limits
        self.default = limits.default
        self.default_factory = limits.default_factory

    def is_required(self) -> bool:
        """Tell whether it has no default."""
        return self.default is _NO_DEFAULT and self.default_factory is None


class _Read(NamedTuple):
    """How a group is read."""

    fields: Mapping[str, Read]
    defaults: Mapping[str, Any]
    required: frozenset[str]
    checks: tuple[Callable[[Any], Any], ...]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Settings:
    """A group of settings: no other keys than these, each value of exactly its type, and none is ever changed."""

    model_fields: ClassVar[Mapping[str, DeclaredField]] = {}
    model_fields_set: frozenset[str] = frozenset()
    """The settings that were given; the others have their defaults."""

    def __init_subclass__(cls) -> None:
        fields = dict(cls.model_fields)
        for name, declared in vars(cls).get("__annotations__", {}).items():
            fields[name] = DeclaredField(declared, vars(cls).get(name, _NO_DEFAULT))
        cls.model_fields = fields
        cls._how = None

    _how: ClassVar[_Read | None] = None

    def __init__(self, **values: Any) -> None:
        """Take all settings that have no default, and others.

        Raises:
            ValueError: pydantic's `ValidationError`: something is wrong.
        """
        vars(self).update(vars(type(self).model_validate(values)))

    @classmethod
    def model_validate(cls, values: Any) -> Self:
        """Return the group with these settings.

        Raises:
            ValueError: pydantic's `ValidationError`: something is wrong.
        """
        try:
            return cls._read(values)
        except ValueError:
            from agent_fabric.config.schema.twins import read_with_pydantic  # noqa: PLC0415 - only for what is wrong

        return read_with_pydantic(cls, values)

    @classmethod
    def model_construct(cls, values: Mapping[str, Any]) -> Self:
        """Return the group with these settings and the defaults of others; nothing is checked."""
        made = object.__new__(cls)
        vars(made).update(cls._how_to_read().defaults)
        vars(made).update(values, model_fields_set=frozenset(values))
        return made

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return a copy in which some settings are others; they are not checked."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        vars(copy).update(update, model_fields_set=self.model_fields_set | frozenset(update))
        return copy

    def model_dump(
        self, *, mode: Literal["python", "json"] = "python", exclude_defaults: bool = False
    ) -> dict[str, Any]:
        """Return the settings as plain nested data; with `json`, of what JSON has only."""
        defaults = self._how_to_read().defaults if exclude_defaults else {}
        return {
            name: _dump(value, mode, exclude_defaults=exclude_defaults)
            for name, value in self
            if name not in defaults or value != defaults[name]
        }

    def model_dump_json(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        given = vars(self)
        return ((name, given[name]) for name in self.model_fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and type(other) is type(self) and dict(self) == dict(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(value for _, value in self)))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self if self.model_fields[name].limits.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: Any) -> None:
        from agent_fabric.config.schema.twins import twin_of  # noqa: PLC0415 - only to explain a mistake

        setattr(twin_of(self), name, value)  # which pydantic refuses

    @classmethod
    def _read(cls, values: Any) -> Self:
        """Raises `Unsure`, or what a check raises."""
        if type(values) is cls:
            return values
        how = cls._how_to_read()
        if type(values) is not dict or not how.required <= values.keys() <= how.fields.keys():
            raise Unsure
        made = object.__new__(cls)
        own = vars(made)
        own.update(how.defaults)
        for name, value in values.items():
            own[name] = how.fields[name](value)
        own["model_fields_set"] = frozenset(values)
        for check in how.checks:
            check(made)
        return made

    @classmethod
    def _how_to_read(cls) -> _Read:
        if cls._how is None:
            reads = {name: _reader(field.annotation, field.metadata) for name, field in cls.model_fields.items()}
            cls._how = _Read(
                fields=reads,
                defaults={
                    name: field.default if field.default_factory is None else reads[name](field.default_factory())
                    for name, field in cls.model_fields.items()
                    if not field.is_required()
                },
                required=frozenset(name for name, field in cls.model_fields.items() if field.is_required()),
                checks=tuple(checks_of(cls)),
            )
        return cls._how


def checks_of(cls: type[Settings]) -> list[Callable[[Any], Any]]:
    """Return the checks of a whole group, in the order in which they stand there."""
    return [each for each in vars(cls).values() if getattr(each, "checked_when", None) == "after"]


def _dump(value: Any, mode: Literal["python", "json"], *, exclude_defaults: bool) -> Any:
    match value:
        case Settings():
            return value.model_dump(mode=mode, exclude_defaults=exclude_defaults)
        case Mapping():
            return {key: _dump(item, mode, exclude_defaults=exclude_defaults) for key, item in value.items()}
        case tuple():
            items = (_dump(item, mode, exclude_defaults=exclude_defaults) for item in value)
            return list(items) if mode == "json" else tuple(items)
        case Path():
            return str(value) if mode == "json" else value
        case _:
            return value


def _reader(annotation: Any, marks: tuple[Any, ...] = ()) -> Read:
    """Return how a value of a type is read, with what stands beside the type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _reader(annotation.__origin__, (*annotation.__metadata__, *marks))
    read = _plain_reader(annotation, origin, is_strict=Strict(strict=False) not in marks)
    for mark in marks:
        read = _with(read, mark)
    return read


def _plain_reader(kind: Any, origin: Any, *, is_strict: bool) -> Read:
    if origin is Literal:
        return _one_of(frozenset(get_args(kind)))
    if origin in (Union, UnionType):
        return _either(get_args(kind))
    if origin is tuple:
        return _tuple(_reader(get_args(kind)[0]), is_strict=is_strict)
    if origin is Mapping:
        return _mapping(*map(_reader, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Settings):
        return kind._read  # noqa: SLF001 - a group in a group
    return {str: _text, int: _whole, float: _number, bool: _truth, Path: _path}[kind]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Unsure
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise Unsure
    return value


def _number(value: Any) -> float:
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise Unsure
    return value


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise Unsure
    return value


def _path(value: Any) -> Path:
    if type(value) is str:
        return Path(value)
    if not isinstance(value, Path):
        raise Unsure
    return value


def _one_of(words: frozenset[str]) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not str or value not in words:
            raise Unsure
        return value

    return read


def _either(kinds: tuple[Any, ...]) -> Read:
    reads = [_reader(kind) for kind in kinds if kind is not NoneType]
    may_be_none = NoneType in kinds
    *others, last = reads

    def read(value: Any) -> Any:
        if value is None and may_be_none:
            return None
        for each in others:
            try:
                return each(value)
            except ValueError:
                continue
        return last(value)

    return read


def _tuple(read_item: Read, *, is_strict: bool) -> Read:
    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not tuple and (is_strict or type(value) is not list):
            raise Unsure
        return tuple(map(read_item, value))

    return read


def _mapping(read_key: Read, read_item: Read) -> Read:
    def read(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise Unsure
        return {read_key(key): read_item(item) for key, item in value.items()}

    return read


def _with(read: Read, mark: Any) -> Read:
    match mark:
        case AfterValidator(check):
            return lambda value: check(read(value))
        case BeforeValidator(change):
            return lambda value: read(change(value))
        case StringConstraints(length, form):
            return _limit(read, Limits(min_length=length), None if form is None else re.compile(form))
        case Limits():
            return _limit(read, mark)
        case Strict():
            return read
        case _:
            raise TypeError(f"{mark!r} is no mark of settings")


def _limit(read: Read, limits: Limits, form: re.Pattern[str] | None = None) -> Read:
    is_free = limits[3:9] == (None,) * 6 and form is None
    gt, ge, lt, le, shortest, longest = limits[3:9]

    def read_within(value: Any) -> Any:
        found = read(value)
        if found is not None and (
            (gt is not None and not found > gt)
            or (ge is not None and not found >= ge)
            or (lt is not None and not found < lt)
            or (le is not None and not found <= le)
            or (shortest is not None and len(found) < shortest)
            or (longest is not None and len(found) > longest)
            or (form is not None and not (found.isascii() and found.isprintable() and form.search(found)))
        ):
            raise Unsure
        return found

    return read if is_free else read_within
