"""Puts settings of one origin over settings of another, remembering who said what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.explain import Finding, explain
from agent_fabric.config.problems import MAX_REPORTED, ConfigProblem, combine
from agent_fabric.config.schema.fabric import FabricConfig

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

    def validated(self, top: str) -> FabricConfig:
        """Check the whole and return it.

        Raises:
            ConfigProblem: something is wrong; `top` is blamed for what cannot be told from the path.
        """
        try:
            return FabricConfig.model_validate(self._usable())
        except ValidationError as error:
            problems = [self._problem(finding, top) for finding in explain(error, self.settings, at_most=MAX_REPORTED)]
            count = error.error_count()
        raise combine(problems, count=count)

    def _usable(self) -> Mapping[str, Any]:
        """Leave out settings of a specialist that is itself left out: they are not a mistake."""
        specialists = self.settings.get("specialists")
        gone = self.left_out.keys() - default_settings()["specialists"].keys()
        if not gone or not isinstance(specialists, Mapping):
            return self.settings
        usable = {name: entry for name, entry in specialists.items() if name not in gone or _has_builder(entry)}
        return {**self.settings, "specialists": usable}

    def _problem(self, finding: Finding, top: str) -> ConfigProblem:
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
