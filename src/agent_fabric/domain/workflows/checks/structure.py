"""Checks what a definition is made of: keys, types and bounds, all from the table in `shape`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

from agent_fabric.domain.definitions.problems import Findings, Path, Place, shown, shown_path
from agent_fabric.domain.workflows.checks.fields import IDENTIFIER, Either, Entries, Field, Group, Kind, Leaf, Steps
from agent_fabric.domain.workflows.checks.shape import EXECUTION, STEP, TRIGGERS, WORKFLOW

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 250_000
"""Values of one definition, keys not counted: ten thousand steps have far fewer."""
_LARGEST: Final = 2**63
_USUAL: Final[Mapping[str, Mapping[str, str]]] = {
    "step": {
        **dict.fromkeys(("run", "cmd", "script", "shell"), "command"),
        **dict.fromkeys(("needs", "depends", "after", "dependsOn", "requires"), "depends_on"),
        **dict.fromkeys(("when", "if", "only_if"), "condition"),
        **dict.fromkeys(("with", "args", "params", "parameters", "arguments", "input"), "inputs"),
        **dict.fromkeys(("name", "key"), "id"),
        **dict.fromkeys(("uses", "type", "kind"), "action"),
        **dict.fromkeys(("retries", "retry_policy"), "retry"),
        **dict.fromkeys(("timeout_s", "timeout_seconds", "timeoutSeconds"), "timeout"),
        **dict.fromkeys(("do", "body", "tasks"), "steps"),
    },
    "workflow": {
        **dict.fromkeys(("jobs", "tasks", "nodes"), "steps"),
        **dict.fromkeys(("on", "trigger"), "triggers"),
        **dict.fromkeys(("title", "id"), "name"),
        **dict.fromkeys(("options", "settings"), "execution"),
    },
    "retry": dict.fromkeys(("attempts", "max", "times", "retries"), "max_attempts") | {"delay": "delay_seconds"},
    "execution": {"max_parallel": "parallel_limit", "concurrency": "parallel_limit", "timeout_s": "timeout"},
}
"""What people write from habit, and what it is called here."""


def is_plain(value: object, findings: Findings) -> bool:
    """Tell whether a value is made of nothing but plain data, not too much and not too deep; note what is not."""
    level: list[tuple[Path, object]] = [((), value)]
    before = len(findings.found)
    count = 1
    for _ in range(MAX_DEPTH):
        inner: list[tuple[Path, object]] = []
        for path, each in level:
            if (message := _odd(each)) is not None:
                findings.add(Place(path), f"{shown_path(path) or 'the definition'} {message}")
            if isinstance(each, dict | list):
                count += len(each)
                if count > MAX_VALUES:
                    findings.add(Place(), f"it has more than {MAX_VALUES} values", "Keep data in files of its own.")
                    return False
            if isinstance(each, dict):
                _check_keys(each, path, findings)
                inner.extend(((*path, _key(key)), item) for key, item in each.items())
            elif isinstance(each, list):
                inner.extend(((*path, index), item) for index, item in enumerate(each))
        level = inner
        if not level:
            return len(findings.found) == before
    findings.add(Place(level[0][0][:3]), f"it is nested deeper than {MAX_DEPTH} levels")
    return False


def _check_keys(mapping: Mapping[object, Any], path: Path, findings: Findings) -> None:
    for key in mapping:
        if not isinstance(key, str):
            findings.add(Place(path), f"the key {_key(key)!r} must be text", "Put quotes around the key.")
        elif (message := _odd(key)) is not None:
            findings.add(Place(path), f"a key of {shown_path(path) or 'the definition'} {message}")


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
            return "contains half a character (a surrogate)" if _has_surrogate(value) else None
        case _:
            return f"is {shown(value)}, which a definition cannot hold"


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def check_structure(plain: object, findings: Findings) -> None:
    """Note every key that is unknown, missing or of the wrong kind."""
    if not isinstance(plain, dict):
        got = "it is empty" if plain is None else f"it is {shown(plain)}"
        findings.add(Place(), f"a workflow must be a mapping, but {got}", "Begin with `name:` and `steps:`.")
        return
    _check_group(plain, WORKFLOW, Place(), findings)


def _check(value: Any, kind: Kind, place: Place, findings: Findings) -> None:
    match kind:
        case Leaf():
            _check_leaf(value, kind, place, findings)
        case Group():
            _check_group(value, kind, place, findings)
        case Entries():
            if not isinstance(value, dict):
                findings.add(place, f"{place.name} must be a mapping, not {shown(value)}")
                return
            for key, each in value.items():
                if kind.keys is not None and not kind.keys.fits(key):
                    hint = kind.keys.hint(key) if callable(kind.keys.hint) else kind.keys.hint
                    findings.add(place.below(key), f"{place.name}: the name {key!r} must be {kind.keys.words}", hint)
                _check(each, kind.of, place.below(key), findings)
        case Either():
            if isinstance(value, dict):
                _check_group(value, kind.full, place, findings)
            elif isinstance(value, str):
                _check_leaf(value, kind.short, place, findings)
            else:
                findings.add(
                    place, f"{place.name} must be {kind.short.words}, or a mapping, not {shown(value)}", kind.hint
                )
        case Steps():
            _check_steps(value, kind, place, findings)
        case _:
            assert_never(kind)


def _check_leaf(value: Any, leaf: Leaf, place: Place, findings: Findings) -> None:
    if not leaf.fits(value):
        hint = leaf.hint(value) if callable(leaf.hint) else leaf.hint
        findings.add(place, f"{place.name} must be {leaf.words}, not {shown(value)}", hint.strip())


def _check_group(value: Any, group: Group, place: Place, findings: Findings) -> None:
    if not isinstance(value, dict):
        name = place.name or f"a {group.name}"
        findings.add(place, f"{name} must be a mapping, not {shown(value)}", f"Its keys: {', '.join(group.fields)}.")
        return
    for key, item in value.items():
        known = group.fields.get(key)
        if known is None:
            findings.add(place.below(key), f"{place.below(key).name!r} is not known here", _meant(key, group, findings))
        elif item is None and not known.nullable:
            findings.add(
                place.below(key), f"{place.below(key).name} is empty", "Give it a value, or leave the line out."
            )
        elif item is not None:
            _check(item, known.kind, place.below(key), findings)
    for key, known in _missing(value, group.fields.items()):
        where = f" in {place.name}" if place.name else ""
        findings.add(place, f"{key!r} is missing{where}", f"Add {known.example}")


def _missing(value: Mapping[str, Any], fields: Iterable[tuple[str, Field]]) -> list[tuple[str, Field]]:
    return [(key, known) for key, known in fields if known.required and key not in value]


def _meant(key: str, group: Group, findings: Findings) -> str:
    if group is WORKFLOW and key in EXECUTION.fields:
        return "It belongs under `execution`."
    if group is WORKFLOW and key in TRIGGERS.fields:
        return "It belongs under `triggers`."
    usual = _USUAL.get(group.name, {}).get(key)
    return f"Here it is called {usual!r}." if usual else findings.did_you_mean(key, group.fields)


def _check_steps(value: Any, kind: Steps, place: Place, findings: Findings) -> None:
    if not isinstance(value, list):
        hint = "Write each step as an item: - id: …"
        findings.add(place, f"{place.name} must be a list of steps, not {shown(value)}", hint)
        return
    if kind.needed and not value:
        findings.add(place, f"{place.name} must hold at least one step", "Add one: - id: hello")
    for index, each in enumerate(value):
        findings_place = step_place(each, place.below(index))
        _check_group(each, STEP, findings_place, findings)


def step_place(plain: object, place: Place) -> Place:
    """Return the place of a step: under its id, if it has a usable one."""
    name = plain.get("id") if isinstance(plain, dict) else None
    if isinstance(name, str) and IDENTIFIER.fullmatch(name):
        return Place(place.path, name, len(place.path))
    return Place(place.path)
