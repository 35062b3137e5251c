"""Reads settings from environment variables: `FABRIC_BUDGET__MAX_STEPS` is `budget.max_steps`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.config.formats.json_text import parse_json
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.config.plain import plain_mapping
from agent_fabric.config.problems import ConfigProblem, combine
from agent_fabric.config.structure import has_entries, is_model, names_at, nearest, takes_text, type_at
from agent_fabric.config.variable_names import PREFIX, RESERVED

_FOREIGN: Final = frozenset({"FABRIC_CFG_PATH", "FABRIC_LOGGING_SPEC"})  # Hyperledger Fabric has the same prefix
_FOREIGN_PREFIXES: Final = ("FABRIC_CA_",)
_REFERENCE: Final = re.compile(r"\benv:([A-Za-z_][A-Za-z0-9_]*)")


class Variable(NamedTuple):
    """A setting that a variable makes."""

    name: str
    path: tuple[str, ...]
    value: Any


def environment_settings(environ: Mapping[str, str], settings: Mapping[str, Any]) -> list[Variable]:
    """Return what the environment sets; `settings` tells which models and specialists there are so far.

    A variable that is empty counts as not set. One that `settings` refers to as `env:NAME` is a secret, not a setting.

    Raises:
        ConfigProblem: a variable names no setting, or its value is not JSON where the setting is not text.
    """
    candidates = {name: text for name, text in environ.items() if text and _may_be_setting(name)}
    secrets = set(_references(settings)).union(*(_REFERENCE.findall(text) for text in candidates.values()))
    variables: list[Variable] = []
    problems: list[ConfigProblem] = []
    for name in sorted(candidates.keys() - secrets):
        try:
            path = _path(name, settings)
            variables.append(Variable(name, path, _value(name, candidates[name], type_at(path))))
        except ConfigProblem as problem:
            problems.append(problem)
    if problems:
        raise combine(problems)
    return variables


def variable_name(path: Sequence[str | int]) -> str:
    """Return the variable that sets what is at `path`."""
    return PREFIX + "__".join(str(part).upper().replace("-", "_") for part in path)


def _may_be_setting(name: str) -> bool:
    return name.startswith(PREFIX) and name not in RESERVED | _FOREIGN and not name.startswith(_FOREIGN_PREFIXES)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, str):
        yield from _REFERENCE.findall(value)


def _path(name: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    entries: Any = settings
    for part in name.removeprefix(PREFIX).lower().split("__"):
        kind = type_at(path)
        if is_model(kind) and part in kind.model_fields:
            path += (part,)
        elif has_entries(kind) and part:
            path += (next((key for key in entries if key.replace("-", "_") == part), part),)
        else:
            raise _unknown(name, settings)
        entries = entries.get(path[-1], {}) if isinstance(entries, Mapping) else {}
    return path


def _unknown(name: str, settings: Mapping[str, Any]) -> ConfigProblem:
    valid = {variable_name(path).removeprefix(PREFIX).lower() for path in _all_paths((), settings)}
    valid |= {reserved.removeprefix(PREFIX).lower() for reserved in RESERVED}
    meant = nearest(name.removeprefix(PREFIX), sorted(valid))
    suggestion = f"; did you mean {PREFIX}{meant.upper()}?" if meant else ""
    return ConfigProblem(
        f"the environment variable {name} names no setting{suggestion}",
        hint="FABRIC_ variables are settings, with __ between the parts: FABRIC_BUDGET__MAX_STEPS=20.",
    )


def _all_paths(path: tuple[str, ...], settings: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    kind = type_at(path)
    names = names_at(path)
    if has_entries(kind):
        names = list(settings.get(path[0], ()))
    for name in names:
        yield from _all_paths((*path, name), settings)


def _value(name: str, text: str, kind: Any) -> Any:
    if takes_text(kind):
        value: Any = text
    else:
        try:
            value = parse_json(text)
        except SyntaxProblem as problem:
            raise ConfigProblem(
                f"the environment variable {name} must be JSON: {problem.message}",
                hint='Examples: 20, true, null, ["ollama", "serve"].',
            ) from None
    return plain_mapping({name: value}, source="env")[name]
