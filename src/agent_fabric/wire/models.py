"""The models at hand, and what probing one found."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from agent_fabric.application.models.list_models import MeantModel
from agent_fabric.application.models.probe_model import Probed, Trial
from agent_fabric.application.ports.models import CatalogueEntry, LoadedModel, OllamaFound, Shelf, WeightsFile
from agent_fabric.domain.models import ModelCard
from agent_fabric.wire.shape import Shape


class UsedModel(NamedTuple):
    """A model and how it is called."""

    key: str
    backend: str
    model: str
    base_url: str | None
    context_window: int | None
    dialect: str
    strict_native: bool
    compact: bool
    slots: int | None
    local: bool


class ConfiguredModel(NamedTuple):
    """What one key of the configuration means today."""

    used: UsedModel | None
    """None: the configuration names something that is not there."""
    meant: MeantModel


class ProbedModel(NamedTuple):
    """What a model can do."""

    used: UsedModel
    probed: Probed


class EmbeddedModels(NamedTuple):
    """The models inside agent-fabric."""

    shelf: Shelf
    loaded: Sequence[LoadedModel]


class Models(NamedTuple):
    """All models at hand."""

    default_model_key: str
    routing_model_key: str
    models: Sequence[ConfiguredModel]
    ollama: Sequence[OllamaFound]
    embedded: EmbeddedModels


_PARTS: list[Shape[Any]] = [
    Shape(
        ConfiguredModel,
        "*used *meant",
        name="MeantModelLine",
        # Its own key counts: one embedded model may serve several.
        parts=[Shape(MeantModel, "key standing why note fix *speed")],
    ),
    Shape(
        ModelCard,
        "name digest parameters_b chats calls_tools context_window served_window remote",
        name="OllamaModelLine",
    ),
    Shape(
        CatalogueEntry,
        "name profile stored size_bytes begun_bytes licence context_window parameters_b dialect path",
        name="CatalogueLine",
    ),
    Shape(WeightsFile, name="FileLine"),
    Shape(
        LoadedModel,
        "name path pid loading context_window slots in_use idle_for_s idle_s memory_bytes",
        name="LoadedLine",
    ),
]
_SHELF = Shape(Shelf, "runtime folder catalogue files", parts=_PARTS)
_EMBEDDED = Shape(EmbeddedModels, "*shelf loaded", name="EmbeddedLine", parts=[_SHELF, *_PARTS])
_OLLAMA = Shape(OllamaFound, "base_url running version startable models", name="OllamaLine", parts=_PARTS)
MODELS = Shape(Models, parts=[*_PARTS, _OLLAMA, _EMBEDDED])
PROBED_MODEL = Shape(
    ProbedModel,
    "*used *probed",
    parts=[
        Shape(
            Probed,
            "why dialect dialect_before=settings.dialect trials context_window=window *speed kept problem",
            parts=[Shape(Trial, name="TrialLine")],
        )
    ],
)
