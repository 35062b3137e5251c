"""Reads the configuration: defaults, packages, files, the page, `.env`, the environment, flags; the later wins."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.dotenv import dotenv_file, read_dotenv
from agent_fabric.config.files import project_file, read_settings, user_file
from agent_fabric.config.formats.json_text import parse_json
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.config.layers import DEFAULT, Layers, Offer, with_packages
from agent_fabric.config.plain import dotted_path, plain_mapping
from agent_fabric.config.problems import ConfigProblem, combine
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.stored import STORED, read_stored, stored_file
from agent_fabric.config.structure import has_entries, is_model, names_at, nearest, takes_text, type_at
from agent_fabric.config.variable_names import CONFIG_PATH, PREFIX, RESERVED

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


@dataclass(frozen=True)
class Loaded:
    """The configuration and where each part of it came from."""

    config: FabricConfig
    layers: Layers

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """The origin of each leaf, by dotted path.

        `default`, `package NAME VERSION`, `file /path`, `stored` (changed on the page), `env FABRIC_NAME` or `flag`.
        Looked up on demand: it takes longer than to read the configuration, and few commands show it.
        """
        return {dotted_path(path): self.layers.origin_of(path) or DEFAULT for path in _leaves(self.config.model_dump())}

    @property
    def left_out(self) -> Mapping[str, str]:
        """Specialists of installed packages that cannot be had, by id, each with a sentence that says why."""
        return self.layers.left_out


Packages = Callable[[], Sequence[Offer]]
"""Finds the specialists that installed packages bring along; this layer looks nowhere but in files."""


def no_packages() -> Sequence[Offer]:
    """Return nothing: only what is built in and configured counts."""
    return ()


class CachedLoader:
    """Reads files and environment once per process; `cache_clear` makes the next call read again."""

    def __init__(self) -> None:
        self._read = lru_cache(maxsize=1)(_read_from_process)

    def __call__(
        self,
        overrides: Mapping[str, Any] | None = None,
        *,
        fabric_folder: Path | None = None,
        packages: Packages = no_packages,
    ) -> Loaded:
        """Return the configuration of this process, with `overrides` from flags on top.

        `overrides` has the shape of a file; `fabric_folder` is where runs lie: it may hold a file too; `packages` finds
        what installed packages bring along.

        Raises:
            ConfigProblem: a file, a variable or an override is wrong.
        """
        return _with_overrides(self._read(fabric_folder, packages), overrides)

    def cache_clear(self) -> None:
        """Forget what was read."""
        self._read.cache_clear()


def read_config(
    environ: Mapping[str, str],
    *,
    fabric_folder: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    packages: Packages = no_packages,
) -> Loaded:
    """Read the configuration of a given environment, without a cache.

    Raises:
        ConfigProblem: a file, a variable or an override is wrong.
    """
    return _with_overrides(_read(environ, fabric_folder, packages), overrides)


def _read_from_process(fabric_folder: Path | None, packages: Packages) -> Loaded:
    return _read(os.environ, fabric_folder, packages)


def _read(environ: Mapping[str, str], fabric_folder: Path | None, packages: Packages) -> Loaded:
    """Merge all layers but the flags; each is checked as it is added, so that the right one is blamed."""
    layers = with_packages(Layers(default_settings()), packages())
    config = layers.validate(DEFAULT)
    for path in _files(environ, fabric_folder):
        origin = f"file {path}"
        layers = layers.over(read_settings(path), origin)
        config = layers.validate(origin)
    if fabric_folder is not None and (stored := read_stored(fabric_folder)):
        layers = layers.over(stored, STORED)
        config = layers.validate(str(stored_file(fabric_folder)))
    if fabric_folder is not None and (project := _dotenv_settings(environ, fabric_folder, layers.settings)):
        origin = f"file {dotenv_file(fabric_folder)}"
        for variable in project:
            layers = layers.over(_nest(variable), origin)
        config = layers.validate(origin)
    variables = environment_settings(environ, layers.settings)
    for variable in variables:
        layers = layers.over(_nest(variable), f"env {variable.name}")
    if variables:
        config = layers.validate("environment")
    return _result(config, layers)


def _dotenv_settings(environ: Mapping[str, str], fabric_folder: Path, settings: Mapping[str, Any]) -> list[Variable]:
    """Return what the project's `.env` sets and the environment does not."""
    found: list[Variable] = []
    problems: list[ConfigProblem] = []
    for name, (text, line) in read_dotenv(fabric_folder).items():
        try:
            found += environment_settings({} if environ.get(name) else {name: text}, settings)
        except ConfigProblem as problem:
            place = f"{dotenv_file(fabric_folder)} (line {line})"
            problems.append(ConfigProblem(f"{place}: {problem.message}", hint=problem.hint))
    if problems:
        raise combine(problems)
    return found


def _nest(variable: Variable) -> dict[str, Any]:
    value: Any = variable.value
    for part in reversed(variable.path):
        value = {part: value}
    return dict(value)


def _files(environ: Mapping[str, str], fabric_folder: Path | None) -> list[Path]:
    if chosen := environ.get(CONFIG_PATH):
        return [Path(os.path.expanduser(chosen))]  # noqa: PTH111 - unlike Path.expanduser it cannot fail
    found = [user_file(environ), project_file(fabric_folder) if fabric_folder else None]
    return [path for path in found if path is not None]


def _with_overrides(loaded: Loaded, overrides: Mapping[str, Any] | None) -> Loaded:
    if not overrides:
        return loaded
    layers = loaded.layers.over(plain_mapping(overrides, source="flag"), "flag")
    return _result(layers.validate("flag"), layers)


def _result(config: FabricConfig, layers: Layers) -> Loaded:
    """Check what only all layers together can say: a file may count in Redis, and a variable say where that is."""
    if config.limits.storage == "redis" and config.redis.url is None:
        origin = layers.origin_of(("limits", "storage")) or DEFAULT
        raise ConfigProblem(
            f"{origin}: limits.storage needs `redis.url`", hint="Such as redis://localhost:6379/0, or env:REDIS_URL."
        )
    return Loaded(config, layers)


def _leaves(value: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    return [path]


load_config = CachedLoader()
