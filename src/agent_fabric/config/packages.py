"""Adds the specialists that installed packages bring along: above what is built in, below every file."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent_fabric.config.layers import Layers
from agent_fabric.config.plain import plain_mapping
from agent_fabric.config.problems import ConfigProblem


class Offer(NamedTuple):
    """A specialist that an installed package brings along."""

    specialist_id: str
    package: str
    """Name and version of the package."""
    settings: Mapping[Any, Any]
    """What a file has below `specialists` and the id."""
    problem: str = ""
    """Why the settings could not be had; empty if they could."""


def with_packages(layers: Layers, offers: Sequence[Offer]) -> Layers:
    """Put what packages offer over what is built in; an offer that cannot be used is left out."""
    packages: dict[str, list[str]] = {}
    for offer in offers:
        packages.setdefault(offer.specialist_id, []).append(offer.package)
    built_in = layers.settings["specialists"]
    for offer in offers:
        try:
            if offer.specialist_id in built_in:
                raise ConfigProblem("a pack of this name is built in")
            if len(packages[offer.specialist_id]) > 1:
                raise ConfigProblem("more than one package brings a pack of this name")
            layers = _with(layers, offer)
        except ConfigProblem as problem:
            brought_by = " and ".join(packages[offer.specialist_id])
            sentence = f"The pack {offer.specialist_id!r} of package {brought_by} is left out: {problem.message}"
            layers = layers.without(offer.specialist_id, sentence)
    return layers


def _with(layers: Layers, offer: Offer) -> Layers:
    if offer.problem:
        raise ConfigProblem(offer.problem)
    origin = f"package {offer.package}"
    settings = plain_mapping(offer.settings, source="its settings")
    if not settings.get("builder"):
        raise ConfigProblem("it names no `builder`")
    added = layers.over({"specialists": {offer.specialist_id: settings}}, origin)
    try:
        added.validated(origin)
    except ConfigProblem as problem:
        raise ConfigProblem(problem.message.removeprefix(f"{origin}: ")) from None
    return added
