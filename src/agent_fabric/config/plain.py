"""Reduces what files, variables and callers hand over to plain data, so that nothing odd travels further."""

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from agent_fabric.config.problems import ConfigProblem

_KINDS: Final[Mapping[type, str]] = {
    type(None): "nothing (null)",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
}

_MAX_DEPTH: Final = 64


def kind_of(value: object) -> str:
    """Name the kind of a value as a person would."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def plain_mapping(value: Mapping[Any, Any], *, source: str) -> dict[str, Any]:
    """Copy a mapping, down to plain dicts, lists, texts, numbers, booleans and None.

    Raises:
        ConfigProblem: it holds anything else, or is nested too deeply.
    """
    return {_key(key, (), source): _plain(item, (key,), source) for key, item in value.items()}


def dotted_path(path: tuple[str | int, ...]) -> str:
    """Write a path the way people do: `models.fast.headers`, `mcp_servers[0].url`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if part.isprintable() and part else repr(part))
    return text


def _plain(value: Any, path: tuple[str | int, ...], source: str) -> Any:
    if len(path) > _MAX_DEPTH:
        raise ConfigProblem(f"{source}: it is nested too deeply, below {dotted_path(path[:3])}")
    match value:
        case None | bool():
            return value
        case int() if abs(value) < 2**63:
            return value
        case int():
            raise ConfigProblem(f"{source}: {dotted_path(path)} is too large a number")
        case float() if math.isfinite(value):
            return value
        case float():
            raise ConfigProblem(f"{source}: {dotted_path(path)} must be a finite number")
        case str():
            return _text(value, path, source)
        case PurePath():
            return _text(str(value), path, source)
        case Mapping():
            return {_key(key, path, source): _plain(item, (*path, key), source) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, (*path, index), source) for index, item in enumerate(value)]
        case _:
            raise ConfigProblem(
                f"{source}: {dotted_path(path)} is {kind_of(value)}, which no setting takes",
                hint="Put quotes around it if it is meant as text.",
            )


def _key(key: object, path: tuple[str | int, ...], source: str) -> str:
    if not isinstance(key, str):
        where = f"in {dotted_path(path)}" if path else "at the top"
        raise ConfigProblem(
            f"{source}: the key {key!r} {where} must be text, got {kind_of(key)}", hint="Put quotes around the key."
        )
    return _text(key, path, source)


def _text(text: str, path: tuple[str | int, ...], source: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigProblem(
            f"{source}: {dotted_path(path) or 'a key at the top'} contains half a character (a surrogate)"
        )
    return text
