"""Checks a definition against its description: keys, types and bounds."""

import math
from collections.abc import Mapping
from typing import Any, Final, assert_never

from agent_fabric.domain.definitions.fields import IDENTIFIER, Either, Entries, Group, Items, Kind, Leaf
from agent_fabric.domain.definitions.problems import CheckPosition, Path, ProblemCollector, show_value, shown_path

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 250_000
"""Values of one definition, keys not counted: ten thousand steps have far fewer."""
_LARGEST: Final = 2**63


def is_plain(value: object, findings: ProblemCollector) -> bool:
    """Tell whether a value is made of nothing but plain data, not too much and not too deep; note what is not."""
    level: list[tuple[Path, object]] = [((), value)]
    before = len(findings.found)
    count = 1
    for _ in range(MAX_DEPTH):
        inner: list[tuple[Path, object]] = []
        for path, each in level:
            if (message := _odd(each)) is not None:
                findings.add(CheckPosition(path), f"{shown_path(path) or 'the definition'} {message}")
            if isinstance(each, dict | list):
                count += len(each)
                if count > MAX_VALUES:
                    findings.add(
                        CheckPosition(), f"it has more than {MAX_VALUES} values", "Keep data in files of its own."
                    )
                    return False
            if isinstance(each, dict):
                _check_keys(each, path, findings)
                inner.extend(((*path, _key(key)), item) for key, item in each.items())
            elif isinstance(each, list):
                inner.extend(((*path, index), item) for index, item in enumerate(each))
        level = inner
        if not level:
            return len(findings.found) == before
    findings.add(CheckPosition(level[0][0][:3]), f"it is nested deeper than {MAX_DEPTH} levels")
    return False


def _check_keys(mapping: Mapping[object, Any], path: Path, findings: ProblemCollector) -> None:
    for key in mapping:
        if not isinstance(key, str):
            findings.add(CheckPosition(path), f"the key {_key(key)!r} must be text", "Put quotes around the key.")
        elif (message := _odd(key)) is not None:
            findings.add(CheckPosition(path), f"a key of {shown_path(path) or 'the definition'} {message}")


def _key(key: object) -> str:
    return (
        key if isinstance(key, str) else str(key)[:60] if isinstance(key, bool | float | None) else type(key).__name__
    )


def _odd(value: object) -> str | None:
    match value:
        case None | bool() | dict() | list():
            return None
        case int():
            return None if -_LARGEST < value < _LARGEST else "is too large a number"
        case float():
            return None if math.isfinite(value) else "must be a finite number"
        case str():
            if "\0" in value:
                return "contains a NUL character, which no command and no text file can hold"
            return "contains half a character (a surrogate)" if _has_surrogate(value) else None
        case _:
            return f"is {show_value(value)}, which a definition cannot hold"


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def check_kind(value: Any, kind: Kind, place: CheckPosition, findings: ProblemCollector) -> None:
    """Note every key and value below `place` that is unknown, missing or of the wrong kind."""
    match kind:
        case Leaf():
            if not kind.fits(value):
                message = f"{place.name} must be {kind.words}, not {show_value(value)}"
                findings.add(place, message, _hint(kind, value, findings))
        case Group():
            _check_group(value, kind, place, findings)
        case Entries():
            if not isinstance(value, dict):
                findings.add(place, f"{place.name} must be a mapping, not {show_value(value)}", kind.hint)
                return
            for key, each in value.items():
                if kind.keys is not None and not kind.keys.fits(key):
                    hint = _hint(kind.keys, key, findings)
                    findings.add(place.below(key), f"{place.name}: the name {key!r} must be {kind.keys.words}", hint)
                check_kind(each, kind.of, place.below(key), findings)
        case Either():
            if isinstance(value, dict | str):
                check_kind(value, kind.full if isinstance(value, dict) else kind.short, place, findings)
            else:
                message = f"{place.name} must be {kind.short.words}, or a mapping, not {show_value(value)}"
                findings.add(place, message, kind.hint)
        case Items():
            _check_items(value, kind, place, findings)
        case _:
            assert_never(kind)


def _hint(leaf: Leaf, value: Any, findings: ProblemCollector) -> str:
    if findings.is_full:
        return ""
    return (leaf.hint(value) if callable(leaf.hint) else leaf.hint).strip()


def _check_group(value: Any, group: Group, place: CheckPosition, findings: ProblemCollector) -> None:
    if not isinstance(value, dict):
        message = f"{place.name or f'a {group.name}'} must be a mapping, not {show_value(value)}"
        findings.add(place, message, f"Its keys: {', '.join(group.fields)}.")
        return
    for key, item in value.items():
        below = place.below(key)
        known = group.fields.get(key)
        if known is None:
            if not group.open:
                findings.add(below, f"{below.name!r} is not known here", _suggestion(key, group, findings))
        elif item is not None:
            check_kind(item, known.kind, below, findings)
        elif not known.nullable:
            findings.add(below, f"{below.name} is empty", "Give it a value, or leave the line out.")
    for key, known in group.fields.items():
        if known.example and key not in value:
            where = f" in {place.name}" if place.name else ""
            findings.add(place, f"{key!r} is missing{where}", f"Add {known.example}")


def _suggestion(key: str, group: Group, findings: ProblemCollector) -> str:
    if findings.is_full:
        return ""
    for name, field in group.fields.items():
        if isinstance(field.kind, Group) and key in field.kind.fields:
            return f"It belongs under `{name}`."
    alias = group.aliases.get(key)
    return f"Here it is called {alias!r}." if alias else findings.did_you_mean(key, group.fields)


def _check_items(value: Any, kind: Items, place: CheckPosition, findings: ProblemCollector) -> None:
    if not isinstance(value, list):
        findings.add(place, f"{place.name} must be a list of {kind.what}, not {show_value(value)}", kind.hint)
        return
    if kind.example and not value:
        message = f"{place.name} must hold at least one {kind.what.removesuffix('s')}"
        findings.add(place, message, f"Add one: {kind.example}")
    elif kind.most is not None and len(value) > kind.most:
        findings.add(place, f"{place.name} must hold at most {kind.most} {kind.what}, not {len(value)}", kind.hint)
        return
    of = kind.of()
    for index, each in enumerate(value):
        at = place.below(index)
        check_kind(each, of, step_place(each, at) if kind.ref == "step" else at, findings)


def step_place(plain: object, place: CheckPosition) -> CheckPosition:
    """Return the place of a step: under its id, if it has a usable one."""
    name = plain.get("id") if isinstance(plain, dict) else None
    if isinstance(name, str) and IDENTIFIER.fullmatch(name):
        return CheckPosition(place.path, name, len(place.path))
    return CheckPosition(place.path)
