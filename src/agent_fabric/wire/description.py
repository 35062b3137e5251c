"""Shapes as JSON Schema, for `/openapi.json` and the reference pages."""

import ast
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

from agent_fabric.wire.shape import LISTS, Key, Listing, Shape, part_of

REFERENCE = "#/components/schemas/{model}"
Schema = dict[str, Any]
_PLAIN: Mapping[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def reference(name: str) -> Schema:
    """Return what stands for a schema where it is used."""
    return {"$ref": REFERENCE.format(model=name)}


class Schemas:
    """The schemas of shapes and of their parts, by name."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}

    def add(self, shape: "Shape[Any] | Listing[Any]") -> Schema:
        """Describe a shape; return a reference to the description."""
        if shape.name not in self.found:
            self.found[shape.name] = {}  # it may contain itself
            self.found[shape.name] = self._listing(shape) if isinstance(shape, Listing) else self._object(shape)
        return reference(shape.name)

    def _listing(self, listing: Listing[Any]) -> Schema:
        items = {"type": "array", "items": self.add(listing.item)}
        return _describe({"type": "object", "properties": {listing.key: items}, "required": [listing.key]}, listing)

    def _object(self, shape: Shape[Any]) -> Schema:
        properties = {name: {"const": value, **self.of(type(value), {})} for name, value in shape.fixed.items()}
        required = list(properties)
        for key in shape.keys:
            if key.name:
                properties[key.name] = self._property(key, shape)
                required.append(key.name)
                continue
            optional = get_origin(key.kind) in (Union, UnionType)
            kind = next(each for each in get_args(key.kind) if each is not NoneType) if optional else key.kind
            if get_origin(kind) in (dict, Mapping):  # whatever it holds
                continue
            part = part_of(kind, shape.parts)
            assert part is not None, f"{shape.name}: {key.path} is no part"
            merged = self._object(part)
            properties |= merged["properties"]
            required += () if optional else merged["required"]
        for name, kind in shape.also.items():
            properties[name.rstrip("?")] = self.of(kind, shape.parts)
            required += () if name.endswith("?") else (name,)
        schema: Schema = {"type": "object", "properties": properties, "required": list(dict.fromkeys(required))}
        if shape.examples:
            schema["examples"] = shape.examples
        return _describe(schema, shape)

    def _property(self, key: Key, shape: Shape[Any]) -> Schema:
        schema = self.of(key.kind, shape.parts)
        if key.empty_is_null:
            schema = {"anyOf": [schema, {"type": "null"}]}
        text = _doc(key.holder, key.path[-1]).replace("None:", "null:")
        return {**schema, "description": text} if text else schema

    def of(self, kind: Any, parts: Mapping[type, Shape[Any]]) -> Schema:
        """Describe a type."""
        if isinstance(kind, Shape | Listing):
            return self.add(kind)
        if isinstance(kind, NewType):
            return self.of(kind.__supertype__, parts)
        origin, arguments = get_origin(kind) or kind, get_args(kind)
        if origin is Annotated:
            return {**self.of(arguments[0], parts), "description": arguments[1]}
        if origin is Any:
            return {}
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(each, parts) for each in arguments]}
        if origin is Literal:
            return {**self.of(type(arguments[0]), parts), "enum": list(arguments)}
        if origin in LISTS:
            return {"type": "array", "items": self.of(arguments[0], parts) if arguments else {}}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1], parts) or True}
        if isinstance(origin, type) and issubclass(origin, Enum):
            return {"type": "string", "enum": [each.value for each in origin]}
        if isinstance(origin, type) and issubclass(origin, PurePath):
            return {"type": "string"}
        part = part_of(origin, parts)
        if part is None:
            raise TypeError(f"{kind!r} has no shape")
        return self.add(part)


def schemas_of(shapes: "Sequence[Shape[Any] | Listing[Any]]") -> dict[str, Schema]:
    """Return the schemas of shapes and of all their parts, by name."""
    schemas = Schemas()
    for shape in shapes:
        schemas.add(shape)
    return schemas.found


def _describe(schema: Schema, shape: "Shape[Any] | Listing[Any]") -> Schema:
    return {**schema, "title": shape.name, "description": cleandoc(shape.about)}


def _doc(cls: type, attribute: str) -> str:
    known = getattr(cls, attribute, None)
    if isinstance(known, property):
        return " ".join((known.__doc__ or "").split())
    for each in cls.__mro__[:-1]:
        if attribute in each.__annotations__:
            return field_docs(each).get(attribute, "")
    return ""


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Return the string under each field of a class, read from its source."""
    docs: dict[str, str] = {}
    for field, text in pairwise(_classes_in(cls.__module__)[cls.__name__].body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            docs[field.target.id] = " ".join(str(text.value.value).split())
    return docs


@cache
def _classes_in(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module; `inspect` would read it anew for each."""
    tree = ast.parse(getsource(sys.modules[module]))
    return {each.name: each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
