"""Renders the description of a definition file as JSON Schema, for editors."""

from collections.abc import Mapping
from typing import Any, Final, assert_never

from agent_fabric.domain.definitions.fields import Either, Entries, Field, Group, Items, Kind, Leaf

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def group_schema(group: Group) -> dict[str, Any]:
    """Return the JSON Schema of a group: what may be written where."""
    return {
        "description": group.doc,
        "type": "object",
        "properties": {name: _field(each) for name, each in group.fields.items()},
        "required": [name for name, each in group.fields.items() if each.required],
        "additionalProperties": group.open,
    }


def _field(field: Field) -> dict[str, Any]:
    schema = _kind(field.kind)
    if field.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    schema = {**schema, "description": field.doc}
    if field.default is not None:
        schema["default"] = field.default
    return schema


def _kind(kind: Kind) -> dict[str, Any]:
    match kind:
        case Leaf():
            return dict(kind.schema)
        case Group():
            return group_schema(kind)
        case Entries():
            schema: dict[str, Any] = {"type": "object", "additionalProperties": _of(kind)}
            if kind.keys is not None:
                schema["propertyNames"] = dict(kind.keys.schema)
            return schema
        case Either():
            return {"anyOf": [dict(kind.short.schema), group_schema(kind.full)]}
        case Items():
            items = {"$ref": f"#/$defs/{kind.ref}"} if kind.ref else _kind(kind.of())
            bounds = {"minItems": kind.least, "maxItems": kind.most}
            return {"type": "array", "items": items, **{key: value for key, value in bounds.items() if value}}
        case _:
            assert_never(kind)


def _of(entries: Entries) -> Mapping[str, Any] | bool:
    return _kind(entries.of) or True
