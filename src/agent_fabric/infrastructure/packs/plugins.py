"""Finds what installed packages bring along.

Packs become a layer of the configuration: see `config/installed_packs.py`.

Actions of workflows stand under the entry point group `agent_fabric.actions`. An entry point's value is an `Action`, as
`@action` makes it, of the entry point's name.

Sensors stand under `agent_fabric.sensors`. An entry point's value is a function that takes the options of the
configuration and returns an object with `look`, as `Sensor` describes it.

Channels stand under `agent_fabric.channels`. An entry point's value is a function that takes the options of the
configuration, what resolves references of secrets, and a clock, and returns a `Channel` whose status has its name.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from agent_fabric.config.installed_packs import package_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError

if TYPE_CHECKING:
    from agent_fabric.application.ports.channels import Channel
    from agent_fabric.application.ports.clock import Clock
    from agent_fabric.application.ports.secrets import Resolve
    from agent_fabric.infrastructure.packs.actions import Action

ACTIONS = "agent_fabric.actions"
SENSORS = "agent_fabric.sensors"
CHANNELS = "agent_fabric.channels"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOffer:
    """An action that a package brings along."""

    name: str
    package: str
    """Its name and version, for people."""
    action: "Action | None"
    problem: str = ""
    """Why it cannot be used; then there is no action."""


def installed_actions() -> list[ActionOffer]:
    """Return every action that an installed package offers; one that cannot be used says why.

    Looking takes some milliseconds, so it is for those who use workflows.
    """
    found = entry_points(group=ACTIONS)
    if not found:
        return []
    offers = [_action_offer(entry) for entry in sorted(found, key=lambda entry: (entry.name, entry.value))]
    names = Counter(offer.name for offer in offers if offer.action is not None)
    return [_unless_twice(offer, names) for offer in offers]


def open_channel(name: str, options: Mapping[str, Any], resolve: "Resolve", clock: "Clock") -> "Channel":
    """Return the channel of a name that an installed package brings along.

    Raises:
        ConfigError: there is none, or it cannot be made.
    """
    missing = ConfigError(f"There is no channel {name!r}", hint="Install the package that brings it along.")
    made: Channel = _make(CHANNELS, name, missing, f"The channel {name!r}", dict(options), resolve, clock)
    if made.status.channel != name:
        raise ConfigError(f"The channel {name!r} calls itself {made.status.channel!r}", hint="Ask its authors.")
    return made


def open_packaged_sensor(kind: str, options: Mapping[str, Any]) -> Any:
    """Return the sensor of a kind that an installed package brings along.

    Raises:
        ConfigError: there is none, or it cannot be made.
    """
    hint = "Use file_change, freshness or event, or install its package."
    missing = ConfigError(f"There is no kind of sensor {kind!r}", hint=hint)
    return _make(SENSORS, kind, missing, f"The sensor {kind!r}", dict(options))


def _make(group: str, name: str, missing: ConfigError, what: str, *arguments: Any) -> Any:
    """Return what the function of an entry point makes; whatever it prints is not on standard output."""
    found = [entry for entry in entry_points(group=group) if entry.name == name]
    if not found:
        raise missing
    try:
        with redirect_stdout(sys.stderr):
            return found[0].load()(*arguments)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - third-party code
        raise ConfigError(f"{what} cannot be made: {type(problem).__name__}: {problem}") from None


def _action_offer(entry: EntryPoint) -> ActionOffer:
    package = package_of(entry)
    try:
        return ActionOffer(name=entry.name, package=package, action=_action(entry))
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - third-party code, in a run that may not need it at all
        told = f"{type(problem).__name__}: {problem}"
        return ActionOffer(name=entry.name, package=package, action=None, problem=told)


def _action(entry: EntryPoint) -> "Action":
    from agent_fabric.infrastructure.packs.actions import Action  # noqa: PLC0415 - most installations have none

    with redirect_stdout(sys.stderr):  # as above
        value = entry.load()
    if not isinstance(value, Action):
        raise TypeError(f"{entry.value} must be made by @action of agent_fabric.extend, not {type(value).__name__}")
    if value.name != entry.name:
        raise TypeError(f"{entry.value} is the action {value.name!r}, but its entry point is named {entry.name!r}")
    return value


def _unless_twice(offer: ActionOffer, names: Counter[str]) -> ActionOffer:
    if names[offer.name] < 2 or offer.action is None:
        return offer
    return replace(offer, action=None, problem="more than one package has an action of this name; remove one of them")
