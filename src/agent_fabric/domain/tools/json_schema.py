"""Checks a value against the part of JSON Schema that tool and finish schemas use.

Pure and small because the engine itself judges arguments, in the layer that may only use the standard library. Keywords
that it does not know are not checked: the tool's own server or code still sees the value. A person who writes a schema
into a workflow relies on all of it, so `faults_in_schema` calls a word that would be passed over a mistake there.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Fault = tuple[tuple[str | int, ...], str]
"""Where in the schema, and what is wrong there."""

TYPES: Final = ("object", "array", "string", "boolean", "null", "integer", "number")
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf"})
_NOTES: Final = frozenset({"title", "description", "default", "examples", "format", "deprecated", "const"}) | {
    *("$schema", "$id", "$comment", "readOnly", "writeOnly")
}
"""Words that demand nothing, or whose value may be anything."""
_INSTEAD: Final[Mapping[str, str]] = {
    "pattern": "write a rule instead: data.name | matches('v*')",
    "$ref": "write the schema out where it is used",
}
_MAX_LEVELS: Final = 64


def faults_in_schema(schema: object, *, expressions: bool = False) -> list[Fault]:
    """Say what is wrong with a schema; an empty list means that all of it is checked.

    With `expressions` a text with `{{` in it may stand for any value that is not known yet.
    """
    return list(_faults(schema, (), expressions=expressions))


def _faults(schema: object, at: tuple[str | int, ...], *, expressions: bool) -> Iterator[Fault]:
    if expressions and isinstance(schema, str) and "{{" in schema:
        return
    if not isinstance(schema, Mapping):
        yield at, f"must be a JSON Schema, such as {{type: string}}, not {_kind(schema)}"
        return
    if len(at) > _MAX_LEVELS:
        yield at, "nests too deep"
        return
    for word, value in schema.items():
        here = (*at, str(word))
        if expressions and isinstance(value, str) and "{{" in value:
            continue
        wrong = _wrong(word, value)
        if wrong:
            yield here, wrong
            continue
        for more, inner in _inside(word, value):
            yield from _faults(inner, (*here, *more), expressions=expressions)


def _wrong(word: object, value: Any) -> str:
    match word:
        case "type":
            names = value if isinstance(value, list | tuple) and value else [value]
            unknown = [each for each in names if each not in TYPES]
            return f"must be one of {', '.join(TYPES)}, not {unknown[0]!r}" if unknown else ""
        case "required":
            fits = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
            return "" if fits else "must be a list of names"
        case "enum":
            return "" if isinstance(value, list | tuple) and value else "must be a list of the values that are allowed"
        case "properties":
            return "" if isinstance(value, Mapping) else "must be a mapping of names to schemas"
        case "uniqueItems":
            return "" if isinstance(value, bool) else "must be true or false"
        case "items" | "not" | "additionalProperties":
            return ""
        case _ if word in _LISTS:
            return "" if isinstance(value, list | tuple) and value else "must be a list of schemas"
        case _ if word in _NUMBERS:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            return "" if fits and (word != "multipleOf" or value > 0) else "must be a number"
        case _ if word in _COUNTS:
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            return "" if fits else "must be a whole number, 0 or more"
        case _ if word in _NOTES or str(word).startswith("x-"):
            return ""
        case _:
            instead = _INSTEAD.get(str(word))
            return f"is no word of JSON Schema that is checked here{f'; {instead}' if instead else ''}"


def _inside(word: object, value: Any) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Return the schemas within one word's value."""
    if word == "properties":
        yield from (((str(name),), each) for name, each in value.items())
    elif word in _LISTS:
        yield from (((index,), each) for index, each in enumerate(value))
    elif word in ("items", "not") or (word == "additionalProperties" and not isinstance(value, bool)):
        yield (), value


def _kind(value: object) -> str:
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    return "a list" if isinstance(value, list | tuple) else str(value)[:60]


MAX_DEPTH = 64
_MAX_PROBLEMS = 5
_MAX_CHARS = 1_000
"""Of one problem: a schema may list very many names."""
_MAX_CHECKS = 1_000_000
"""Of one part of a value against one schema. A large value fits in; a schema made to take for ever does not."""

_USUAL = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": float}
_CHOICES = frozenset({"enum", "const", "anyOf", "oneOf", "allOf", "not"})
_PLAIN = frozenset({"type", "title", "description", "default", "examples"})
"""Words of a schema that says nothing but the type."""
_PLAIN_OBJECT = _PLAIN | {"properties", "required", "additionalProperties"}
_OF_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_SAME = 1e-9
"""How far a quotient may be from a whole number to count as one."""
_TYPE_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def problems_with(value: object, schema: Mapping[str, Any]) -> list[str]:
    """Say in plain words what is wrong with `value`; an empty list means that it fits.

    A schema may be third-party: of a tool server, or out of data. One that makes no sense fits nothing.
    """
    if value.__class__ is dict and _fits_plainly(value, schema):  # as most arguments of tools do
        return []
    found = _Found(_MAX_CHECKS)
    try:
        _check(value, schema, "", found)
    except _TooMuch:
        found.append("cannot be checked, because that would take too long")
    except (TypeError, AttributeError, ValueError, RecursionError) as problem:
        found.append(f"cannot be checked, because the schema is not sound: {problem}"[:_MAX_CHARS])
    return [each if len(each) <= _MAX_CHARS else f"{each[:_MAX_CHARS]}…" for each in found[:_MAX_PROBLEMS]]


def too_deep(value: object, text: str | bytes) -> bool:
    """Tell whether a JSON value nests so deep that code further on, or another JSON library, would choke on it.

    `text` is what the value was read from: few brackets in it mean that there is nothing to look for.
    """
    brackets = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if brackets <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for entry in level
            if isinstance(entry, dict | list)
            for item in (entry.values() if isinstance(entry, dict) else entry)
        ]
        if not level:
            return False
    return any(isinstance(entry, dict | list) for entry in level)


class _TooMuch(Exception):
    """Checking would take too long."""


class _Found(list[str]):
    """The problems so far, and how much may still be checked."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def spend(self, checks: int) -> None:
        self.left -= checks
        if self.left < 0:
            raise _TooMuch


def _fits(value: Any, schema: Mapping[str, Any], found: _Found) -> bool:
    """Tell whether a value fits a part of the schema; what is wrong with it is not told."""
    tried = _Found(found.left)
    try:
        _check(value, schema, "", tried)
    except (TypeError, AttributeError, ValueError, RecursionError):
        return False
    finally:
        found.left = tried.left
    return not tried


def _check(value: Any, schema: Mapping[str, Any], at: str, found: _Found) -> None:
    found.spend(1)
    if len(found) >= _MAX_PROBLEMS:
        return
    where = at or "the arguments"
    allowed = schema.get("type")
    if allowed is not None and not (isinstance(allowed, str) and type(value) is _USUAL.get(allowed)):
        names = [allowed] if isinstance(allowed, str) else list(allowed)
        known = [name for name in names if name in _TYPE_CHECKS]
        if known and not any(_TYPE_CHECKS[name](value) for name in known):
            found.append(f"{where} must be {' or '.join(known)}, not {_name_of(value)}")
            return
    if not _CHOICES.isdisjoint(schema):
        _check_choices(value, schema, at, found)
    if isinstance(value, dict):
        _check_object(value, schema, at, found)
    elif isinstance(value, list):
        _check_array(value, schema, at, found)
    elif isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            found.append(f"{where} is too short: at least {schema['minLength']} characters")
        if len(value) > schema.get("maxLength", len(value)):
            found.append(f"{where} is too long: at most {schema['maxLength']} characters")
    elif isinstance(value, int | float) and not isinstance(value, bool) and not _OF_NUMBERS.isdisjoint(schema):
        _check_number(value, schema, where, found)


def _check_number(value: float, schema: Mapping[str, Any], where: str, found: _Found) -> None:
    if value < schema.get("minimum", value):
        found.append(f"{where} must be at least {schema['minimum']}")
    if value > schema.get("maximum", value):
        found.append(f"{where} must be at most {schema['maximum']}")
    above, below, step = (schema.get(word) for word in ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
    # In older schemas the first two are true or false.
    if isinstance(above, int | float) and not isinstance(above, bool) and value <= above:
        found.append(f"{where} must be more than {above}")
    if isinstance(below, int | float) and not isinstance(below, bool) and value >= below:
        found.append(f"{where} must be less than {below}")
    if isinstance(step, int | float) and step > 0:
        whole = isinstance(value, int) and isinstance(step, int)
        if value % step if whole else abs(value / step - round(value / step)) > _SAME:
            found.append(f"{where} must be a multiple of {step}")


def _check_choices(value: Any, schema: Mapping[str, Any], at: str, found: _Found) -> None:
    where = at or "the arguments"
    found.spend(len(schema.get("enum", ())) // 2)
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        found.append(f"{where} must be one of {', '.join(map(str, schema['enum']))}")
    if "const" in schema and not _same(value, schema["const"]):
        found.append(f"{where} must be {schema['const']!r}")
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword) or ()
        fitting = [option for option in options if _fits(value, option, found)]
        if options and not fitting:
            found.append(f"{where} fits none of the allowed forms")
        elif keyword == "oneOf" and len(fitting) > 1 and not any(map(faults_in_schema, options)):
            found.append(f"{where} fits more than one of the allowed forms")
    for option in schema.get("allOf", ()):
        _check(value, option, at, found)
    unwanted = schema.get("not")
    if isinstance(unwanted, Mapping) and _fits(value, unwanted, found) and not faults_in_schema(unwanted):
        found.append(f"{where} has a form that is not allowed")


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _check_object(value: dict[str, Any], schema: Mapping[str, Any], at: str, found: _Found) -> None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    if len(value) < schema.get("minProperties", 0):
        found.append(f"{at or 'the arguments'} needs at least {schema['minProperties']} fields")
    if len(value) > schema.get("maxProperties", len(value)):
        found.append(f"{at or 'the arguments'} may have at most {schema['maxProperties']} fields")
    found.extend(f"{_join(at, name)} is missing" for name in schema.get("required", ()) if name not in value)
    extra = schema.get("additionalProperties", True)
    for name, item in value.items():
        if len(found) >= _MAX_PROBLEMS:
            return
        if name in properties:
            wanted = properties[name]
            if not _is_plainly(item, wanted):
                _check(item, wanted, _join(at, name), found)
        elif extra is False:
            known = ", ".join(properties) or "none"
            found.append(f"{_join(at, name)} is not known (known: {known})")
        elif isinstance(extra, Mapping):
            _check(item, extra, _join(at, name), found)


def _fits_plainly(value: Any, schema: Mapping[str, Any]) -> bool:
    """Tell whether an object has what a schema requires and only fields of plain types; False: perhaps it fits."""
    if schema.__class__ is not dict or schema.get("type") != "object" or not _PLAIN_OBJECT.issuperset(schema):
        return False
    properties, required = schema.get("properties"), schema.get("required", ())
    if properties.__class__ is not dict or required.__class__ not in (list, tuple):
        return False
    for name in required:
        if name.__class__ is not str or name not in value:
            return False
    for name, item in value.items():
        wanted = properties.get(name)
        if wanted.__class__ is not dict or wanted.get("type").__class__ is not str or not _PLAIN.issuperset(wanted):
            return False
        if type(item) is not _USUAL.get(wanted["type"]):
            return False
    return True


def _is_plainly(value: Any, schema: Mapping[str, Any]) -> bool:
    """Tell whether a value is of the type that a schema wants, which wants nothing else: so are most arguments."""
    wanted = schema.get("type")
    return wanted.__class__ is str and type(value) is _USUAL.get(wanted) and _PLAIN.issuperset(schema)


def _check_array(value: list[Any], schema: Mapping[str, Any], at: str, found: _Found) -> None:
    where = at or "the arguments"
    if len(value) < schema.get("minItems", 0):
        found.append(f"{where} needs at least {schema['minItems']} items")
    if len(value) > schema.get("maxItems", len(value)):
        found.append(f"{where} may have at most {schema['maxItems']} items")
    if schema.get("uniqueItems") is True and len({json.dumps(each, sort_keys=True) for each in value}) < len(value):
        found.append(f"{where} must not hold the same item twice")
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(value):
            if len(found) >= _MAX_PROBLEMS:
                return
            _check(item, items, f"{at}[{index}]", found)


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _name_of(value: object) -> str:
    for name in ("null", "boolean", "integer", "number", "string", "array", "object"):
        if _TYPE_CHECKS[name](value):
            return name
    return type(value).__name__
