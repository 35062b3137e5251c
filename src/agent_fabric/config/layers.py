"""Puts settings of one origin over those of another, remembering who said what; installed packages are one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent_fabric.config.defaults import default_settings
from agent_fabric.config.plain import dotted_path, kind_of, plain_mapping
from agent_fabric.config.problems import MAX_REPORTED, ConfigProblem, combine
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.structure import names_at, nearest


class Finding(NamedTuple):
    """One thing that is wrong."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""


_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "text",
    "path_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def explain(error: ValidationError, settings: Mapping[str, Any], *, at_most: int) -> list[Finding]:
    """Turn the first of pydantic's errors about `settings` into findings."""
    return [_finding(details, settings) for details in error.errors(include_url=False)[:at_most]]


def _finding(details: ErrorDetails, settings: Mapping[str, Any]) -> Finding:
    path, kind = details["loc"], details["type"]
    if kind != "extra_forbidden" and path[-1:] == ("[key]",):  # pydantic's mark for "the key itself is wrong"
        path = path[:-1]
    context = details.get("ctx", {})
    where = dotted_path(path)
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        return Finding(path, f"{where} is missing", "A new entry must be complete on its own.")
    if kind == "model_unknown":
        known = ", ".join(settings["models"])
        return Finding(path, f"{where} is {_short(details['input'])}, but no model has this key", f"Models: {known}.")
    if kind == "literal_error":
        return Finding(path, f"{where} must be {context['expected']}, got {_short(details['input'])}")
    if kind in _EXPECTED:
        got = "a fraction" if kind == "int_from_float" else kind_of(details["input"])
        return Finding(path, f"{where} must be {_EXPECTED[kind]}, got {got}")
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return Finding(path, f"{where} must be {words} {context[key]:g}, got {_short(details['input'])}")
    if kind in {"string_too_short", "too_short"}:
        return Finding(path, f"{where} must not be empty")
    problem = context.get("error")
    if isinstance(problem, ConfigProblem):
        return Finding(path, f"{where} {problem.message}", problem.hint)
    return Finding(path, f"{where}: {details['msg'][:1].lower()}{details['msg'][1:]}")


def _unknown_key(path: tuple[str | int, ...]) -> Finding:
    parent, name = path[:-1], str(path[-1])
    valid = names_at(parent)
    meant = nearest(name, valid)
    where = f" in {dotted_path(parent)}" if parent else ""
    suggestion = f"; did you mean {meant!r}?" if meant else ""
    return Finding(path, f"unknown key {_short(name)}{where}{suggestion}", f"Valid keys here: {', '.join(valid)}.")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else None
    if text is not None:
        return repr(text if len(text) <= 60 else text[:57] + "…")
    return str(value) if isinstance(value, int | float) and abs(value) < 1e15 else kind_of(value)


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
