"""Describes definition files: kinds of values, each with its check, its words and its JSON Schema.

`validate` checks a file against such a description; `schema_of_file` renders it for editors.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Final, assert_never

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.problems import did_you_mean

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
NAME: Final = re.compile(r"(?=.{1,64}$)[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", re.ASCII)
_NUMBER = r"(?:0|[1-9][0-9]*)"
_LABEL = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
SEMVER: Final = re.compile(rf"(?=.{{1,64}}$){_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_LABEL})?(?:\+{_LABEL})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value."""

    words: str
    """What it must be: `must be …`."""
    schema: Mapping[str, Any]
    fits: Callable[[Any], bool]
    hint: str | Callable[[Any], str] = ""
    """What to do about a value that does not fit."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a group."""

    kind: "Kind"
    doc: str
    example: str = ""
    """Of a required field: what to add when it is missing; empty: it may be left out."""
    default: Any = None
    """What holds when it is left out, for readers."""
    nullable: bool = False
    """Nothing is the same as leaving it out, as programs that write files expect."""


def optional(kind: "Kind", doc: str, default: Any = None) -> Field:
    """Return a field that may be left out, or hold nothing."""
    return Field(kind, doc, default=default, nullable=True)


@dataclass(frozen=True, slots=True)
class Group:
    """A mapping with known keys."""

    name: str
    doc: str
    fields: Mapping[str, Field]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Keys of other tools, and the name of the same thing here."""
    open: bool = False
    """Other keys are allowed, with any value."""


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping whose keys the author chooses."""

    of: "Kind"
    keys: Leaf | None = None
    """What the keys must be; None: any text."""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Either:
    """A short form, or the full one."""

    short: Leaf
    full: Group
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    of: Callable[[], "Kind"]
    """Called late: a step holds steps."""
    what: str
    """Plural, for messages: `must be a list of …`."""
    hint: str = ""
    example: str = ""
    """Of a list that must not be empty: one item."""
    most: int | None = None
    ref: str = ""
    """Name under `$defs` of the JSON Schema; empty: written in place."""


Kind = Leaf | Group | Entries | Either | Items


def is_number(value: object) -> bool:
    """Tell whether a value is a number; what is true or false is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text(
    words: str = "text",
    *,
    pattern: re.Pattern[str] | None = None,
    hint: str | Callable[[Any], str] = "",
    least: int = 1,
    most: int = 100_000,
) -> Leaf:
    """Return text within bounds, perhaps of a certain form."""
    schema: dict[str, Any] = {"type": "string", **({"minLength": least} if least else {})}
    if pattern is not None:
        schema["pattern"] = f"^(?:{pattern.pattern})$"

    def fits(value: Any) -> bool:
        whole = isinstance(value, str) and least <= len(value) <= most
        return whole and (pattern is None or bool(pattern.fullmatch(value)))

    return Leaf(words, schema, fits, hint)


def texts(what: str, example: str) -> Leaf:
    """Return a list of texts; the example is written as in a file, with the key."""
    key = example.partition(":")[0]
    return Leaf(
        f"a list of {what}",
        {"type": "array", "items": {"type": "string", "minLength": 1}},
        lambda value: isinstance(value, list) and all(isinstance(each, str) and each for each in value),
        lambda value: f"Write {key}: [{value}]" if isinstance(value, str) and value else f"Write {example}",
    )


def text_or_texts(what: str, example: str) -> Leaf:
    """Return a text or a list of texts."""
    several = texts(what, example)
    return Leaf(
        f"text or {several.words}",
        {"anyOf": [{"type": "string", "minLength": 1}, {**several.schema, "minItems": 1}]},
        lambda value: bool(value.strip()) if isinstance(value, str) else several.fits(value) and bool(value),
        several.hint,
    )


def whole(least: int, most: int | None = None) -> Leaf:
    """Return a whole number within bounds."""
    return Leaf(
        f"a whole number from {least} to {most}" if most else f"a whole number of at least {least}",
        {"type": "integer", "minimum": least, **({"maximum": most} if most else {})},
        lambda value: is_number(value) and isinstance(value, int) and least <= value <= (most or value),
    )


def seconds(*, above_zero: bool, most: float | None = None) -> Leaf:
    """Return a number of seconds."""
    bound = f" and at most {most:.0f}" if most else ""
    least = "exclusiveMinimum" if above_zero else "minimum"
    return Leaf(
        f"a number of seconds, {'above' if above_zero else 'at least'} 0{bound}",
        {"type": "number", least: 0, **({"maximum": most} if most else {})},
        lambda value: is_number(value) and (value > 0 if above_zero else value >= 0) and value <= (most or value),
        lambda value: "Write a plain number of seconds, as in: 90" if isinstance(value, str) else "",
    )


def amount(most: float) -> Leaf:
    """Return a number above zero."""
    return Leaf(
        f"a number above 0 and at most {most:.0f}",
        {"type": "number", "exclusiveMinimum": 0, "maximum": most},
        lambda value: is_number(value) and 0 < value <= most,
        lambda value: "Write a plain number, as in: 0.50" if isinstance(value, str) else "",
    )


def number(least: float, most: float) -> Leaf:
    """Return a number within bounds."""
    return Leaf(
        f"a number from {least:g} to {most:g}",
        {"type": "number", "minimum": least, "maximum": most},
        lambda value: is_number(value) and least <= value <= most,
    )


def one_of(choices: Iterable[str], usual: Mapping[str, str] | None = None) -> Leaf:
    """Return one word of a closed choice; `usual` are the words that people write instead."""
    words = tuple(choices)

    def hint(value: object) -> str:
        if not isinstance(value, str):
            return ""
        meant = (usual or {}).get(value.casefold())
        return f"Did you mean {meant!r}?" if meant else did_you_mean(value.lower(), words, otherwise=" ")

    return Leaf(
        f"one of {', '.join(words)}",
        {"enum": list(words)},
        lambda value: isinstance(value, str) and value in words,
        hint,
    )


FLAG: Final = Leaf(
    "true or false",
    {"type": "boolean"},
    lambda value: isinstance(value, bool),
    lambda value: "Write true or false, without quotes." if isinstance(value, str) else "",
)
ANYTHING: Final = Leaf("anything", {}, lambda _: True)
LIST: Final = Leaf("a list", {"type": "array"}, lambda value: isinstance(value, list))


def _identifier_hint(value: Any) -> str:
    if not isinstance(value, str):
        return "Put quotes around it if it is meant as text." if value is not None else ""
    near = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in value.strip())[:64]
    near = f"_{near}" if near[:1].isdigit() else near
    return f"Write {near!r}: expressions read `a-b` as a minus b." if IDENTIFIER.fullmatch(near) else ""


def name_hint(value: Any) -> str:
    """Return the nearest valid name."""
    if not isinstance(value, str):
        return ""
    words = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in value.lower()).split()
    near = "-".join(words)[:64].strip("-")
    return f"Write {near!r}." if NAME.fullmatch(near) else "A name is like: release-notes"


def _version_hint(value: Any) -> str:
    if isinstance(value, str):
        parts = value.lstrip("v").split(".")
        if len(parts) < 3 and all(part.isdecimal() for part in parts):
            return f"Write {'.'.join([*parts, '0', '0'][:3])!r}."
        return "A version is like: 1.0.0"
    return f'Write it as text with three parts: "{value:g}.0"' if isinstance(value, float) else 'Write: "1.0.0"'


IDENTIFIER_TEXT: Final = text(
    "an identifier: letters, digits and _, at most 64, not beginning with a digit",
    pattern=IDENTIFIER,
    hint=_identifier_hint,
)

VERSION: Final = text("a version like 1.0.0", pattern=SEMVER, hint=_version_hint)


def schema_of_file(title: str, group: Group, **more: Any) -> dict[str, Any]:
    """Return the JSON Schema of a whole file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **group_schema(group), **more}


def group_schema(group: Group) -> dict[str, Any]:
    """Return the JSON Schema of a group: what may be written where."""
    return {
        "description": group.doc,
        "type": "object",
        "properties": {name: _field_schema(each) for name, each in group.fields.items()},
        "required": [name for name, each in group.fields.items() if each.example],
        "additionalProperties": group.open,
    }


def _field_schema(field: Field) -> dict[str, Any]:
    schema = _kind_schema(field.kind)
    if field.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    default = {} if field.default is None else {"default": field.default}
    return {**schema, "description": field.doc, **default}


def _kind_schema(kind: Kind) -> dict[str, Any]:
    match kind:
        case Leaf():
            return dict(kind.schema)
        case Group():
            return group_schema(kind)
        case Entries():
            keys = {} if kind.keys is None else {"propertyNames": dict(kind.keys.schema)}
            return {"type": "object", "additionalProperties": _kind_schema(kind.of) or True, **keys}
        case Either():
            return {"anyOf": [dict(kind.short.schema), group_schema(kind.full)]}
        case Items():
            items = {"$ref": f"#/$defs/{kind.ref}"} if kind.ref else _kind_schema(kind.of())
            bounds = {"minItems": int(bool(kind.example)), "maxItems": kind.most}
            return {"type": "array", "items": items, **{key: value for key, value in bounds.items() if value}}
        case _:
            assert_never(kind)
