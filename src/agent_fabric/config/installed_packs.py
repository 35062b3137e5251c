"""Finds the specialists that installed packages bring along.

They stand under the entry point group `agent_fabric.packs`. An entry point's name is the specialist's id. Its value is
a mapping as below `specialists` in a configuration file, or a function without arguments that returns one.
"""

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from agent_fabric.config.layers import Offer

PACKS = "agent_fabric.packs"


def installed_packs() -> list[Offer]:
    """Return what every installed package offers; one that cannot be loaded says why."""
    return [_offer(entry) for entry in sorted(entry_points(group=PACKS), key=lambda entry: entry.name)]


def package_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that an entry point belongs to."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def _offer(entry: EntryPoint) -> Offer:
    package = package_of(entry)
    try:
        return Offer(entry.name, package, _settings(entry))
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - third-party code, in a run that may not need it at all
        return Offer(entry.name, package, {}, problem=f"{type(problem).__name__}: {problem}")


def _settings(entry: EntryPoint) -> Mapping[Any, Any]:
    with redirect_stdout(sys.stderr):  # what a package prints at its import must not end up in a command's output
        value = entry.load()
        settings = value() if callable(value) else value
    if not isinstance(settings, Mapping):
        raise TypeError(f"{entry.value} must be a mapping or return one, not {type(settings).__name__}")
    return settings
