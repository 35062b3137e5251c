"""Reads the configuration: defaults, packages, files, the page, `.env`, the environment, flags; the later wins."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.dotenv import dotenv_file, read_dotenv
from agent_fabric.config.environment import Variable, environment_settings
from agent_fabric.config.files import project_file, read_settings, user_file
from agent_fabric.config.layers import DEFAULT, Layers
from agent_fabric.config.packages import Offer, with_packages
from agent_fabric.config.plain import dotted_path, plain_mapping
from agent_fabric.config.problems import ConfigProblem, combine
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.stored import STORED, read_stored, stored_file
from agent_fabric.config.variable_names import CONFIG_PATH


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
        layers, loaded = self._read(fabric_folder, packages)
        return _with_overrides(layers, overrides) if overrides else loaded

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
    layers, loaded = _read(environ, fabric_folder, packages)
    return _with_overrides(layers, overrides) if overrides else loaded


class _Read(NamedTuple):
    layers: Layers
    loaded: Loaded


def _read_from_process(fabric_folder: Path | None, packages: Packages) -> _Read:
    return _read(os.environ, fabric_folder, packages)


def _read(environ: Mapping[str, str], fabric_folder: Path | None, packages: Packages) -> _Read:
    """Merge all layers but the flags; each is checked as it is added, so that the right one is blamed."""
    layers = with_packages(Layers(default_settings()), packages())
    config = layers.validated(DEFAULT)
    for path in _files(environ, fabric_folder):
        origin = f"file {path}"
        layers = layers.over(read_settings(path), origin)
        config = layers.validated(origin)
    if fabric_folder is not None and (stored := read_stored(fabric_folder)):
        layers = layers.over(stored, STORED)
        config = layers.validated(str(stored_file(fabric_folder)))
    if fabric_folder is not None and (project := _dotenv_settings(environ, fabric_folder, layers.settings)):
        origin = f"file {dotenv_file(fabric_folder)}"
        for variable in project:
            layers = layers.over(_nest(variable), origin)
        config = layers.validated(origin)
    variables = environment_settings(environ, layers.settings)
    for variable in variables:
        layers = layers.over(_nest(variable), f"env {variable.name}")
    if variables:
        config = layers.validated("environment")
    return _Read(layers, _result(config, layers))


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


def _with_overrides(layers: Layers, overrides: Mapping[str, Any]) -> Loaded:
    layers = layers.over(plain_mapping(overrides, source="flag"), "flag")
    return _result(layers.validated("flag"), layers)


def _require_redis(config: FabricConfig, layers: Layers) -> None:
    """Check what only all layers together can say: a file may count in Redis, and a variable say where that is."""
    if config.limits.storage == "redis" and config.redis.url is None:
        origin = layers.origin_of(("limits", "storage")) or DEFAULT
        raise ConfigProblem(
            f"{origin}: limits.storage needs `redis.url`", hint="Such as redis://localhost:6379/0, or env:REDIS_URL."
        )


def _result(config: FabricConfig, layers: Layers) -> Loaded:
    _require_redis(config, layers)
    return Loaded(config, layers)


def _leaves(value: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    return [path]


load_config = CachedLoader()
