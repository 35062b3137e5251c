"""Answers questions about the schema: what is at a path, and which names are valid there."""

import types
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from agent_fabric.config.schema.declared import Settings
from agent_fabric.config.schema.fabric import FabricConfig


def core_type(annotation: Any) -> Any:
    """Strip what only qualifies a type: `Annotated[...]` and `| None`."""
    if get_origin(annotation) is Annotated:
        return core_type(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        inner = [part for part in get_args(annotation) if part is not type(None)]
        return core_type(inner[0]) if len(inner) == 1 else annotation
    return annotation


def type_at(path: Sequence[str | int]) -> Any:
    """Return the type of the setting at `path`, None if there is no such setting."""
    current: Any = FabricConfig
    for part in path:
        if is_model(current):
            field = current.model_fields.get(part)
            current = None if field is None else core_type(field.annotation)
        elif get_origin(current) is Mapping:
            current = core_type(get_args(current)[1])
        elif get_origin(current) is tuple:
            current = core_type(get_args(current)[0])
        else:
            return None
    return current


def is_model(kind: Any) -> bool:
    """Tell whether a type is a group of settings."""
    return isinstance(kind, type) and issubclass(kind, Settings)


def has_entries(kind: Any) -> bool:
    """Tell whether a type is a group of named entries, as `models` is."""
    return get_origin(kind) is Mapping and is_model(core_type(get_args(kind)[1]))


def takes_text(kind: Any) -> bool:
    """Tell whether a setting of this type is written as text."""
    return kind is str or kind is Path or get_origin(kind) is Literal


def names_at(path: Sequence[str | int]) -> list[str]:
    """Return the keys that are valid in the group at `path`."""
    kind = type_at(path)
    return list(kind.model_fields) if is_model(kind) else []


def nearest(name: str, candidates: Sequence[str]) -> str | None:
    """Return the candidate that `name` was probably meant to be."""
    matches = get_close_matches(name.lower(), candidates, n=1, cutoff=0.6)
    return matches[0] if matches else None
