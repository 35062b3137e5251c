"""Puts settings of one origin over those of another, remembering who said what; installed packages are one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.plain import plain_mapping
from agent_fabric.config.problems import MAX_REPORTED, ConfigProblem, combine
from agent_fabric.config.schema.fabric import FabricConfig

if TYPE_CHECKING:
    from agent_fabric.config.explain import Finding

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Layers:
    """Settings merged so far. Mappings are merged key by key; anything else, lists too, is replaced."""

    settings: Mapping[str, Any]
    origins: Mapping[str, Any] = field(default_factory=dict)
    """The same tree as the settings, with the origin in place of each value; what is built in is left out."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Specialists of installed packages that cannot be had, by id, each with a sentence that says why."""

    def over(self, settings: Mapping[str, Any], origin: str) -> "Layers":
        """Return these layers with one more on top."""
        merged, origins = _merge(self.settings, settings), _merge(self.origins, _label(settings, origin))
        return Layers(merged, origins, self.left_out)

    def without(self, specialist_id: str, reason: str) -> "Layers":
        """Return these layers with the knowledge that a package's specialist is left out."""
        return Layers(self.settings, self.origins, {**self.left_out, specialist_id: reason})

    def origin_of(self, path: tuple[str | int, ...]) -> str | None:
        """Return the origin of what is at `path`; None for a default."""
        current: Any = self.origins
        for part in path:
            if not isinstance(current, Mapping):
                break
            current = current.get(str(part))
        return current if isinstance(current, str) else None

    def validate(self, top: str) -> FabricConfig:
        """Check the whole and return it.

        Raises:
            ConfigProblem: something is wrong; `top` is blamed for what cannot be told from the path.
        """
        try:
            return FabricConfig.model_validate(self._usable())
        except ValueError as error:
            from agent_fabric.config.explain import count_of, explain  # noqa: PLC0415 - only for what is wrong

            problems = [self._problem(finding, top) for finding in explain(error, self.settings, at_most=MAX_REPORTED)]
            count = count_of(error)
        raise combine(problems, count=count)

    def _usable(self) -> Mapping[str, Any]:
        """Leave out settings of a specialist that is itself left out: they are not a mistake."""
        specialists = self.settings.get("specialists")
        gone = self.left_out.keys() - default_settings()["specialists"].keys()
        if not gone or not isinstance(specialists, Mapping):
            return self.settings
        usable = {name: entry for name, entry in specialists.items() if name not in gone or _has_builder(entry)}
        return {**self.settings, "specialists": usable}

    def _problem(self, finding: "Finding", top: str) -> ConfigProblem:
        return ConfigProblem(f"{self.origin_of(finding.path) or top}: {finding.message}", hint=finding.hint)


def _has_builder(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "builder" in entry


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = _merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def _label(settings: Mapping[str, Any], origin: str) -> dict[str, Any]:
    return {key: _label(value, origin) if isinstance(value, Mapping) else origin for key, value in settings.items()}


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
        added.validate(origin)
    except ConfigProblem as problem:
        raise ConfigProblem(problem.message.removeprefix(f"{origin}: ")) from None
    return added
