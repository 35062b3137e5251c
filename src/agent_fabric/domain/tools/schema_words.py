"""Whether a JSON Schema can be judged by: every word in it is one that is checked here, and well written.

What comes from other programs is judged as far as it is understood. A person who writes a schema into a workflow relies
on all of it, so a word that would be passed over is a mistake there.
"""

from collections.abc import Iterator, Mapping
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
