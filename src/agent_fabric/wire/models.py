"""The models at hand, and what probing one found."""

from typing import Any

from agent_fabric.application.models.list_models import MeantModel, ModelList
from agent_fabric.application.models.probe_model import DialectTrial, Probed
from agent_fabric.application.models.recommend_model import Fit, Recommendation
from agent_fabric.application.ports.models import (
    CatalogueEntry,
    LoadedModel,
    OllamaFound,
    PulledModel,
    Shelf,
    WeightsFile,
)
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.wire.shape import Shape

_USED = Shape(
    ModelSettings,
    "key backend model base_url=address context_window dialect strict_native compact slots adapter local=is_local",
)
_PARTS: list[Shape[Any]] = [
    # Its own key counts: one embedded model may serve several.
    Shape(
        MeantModel, "*settings key standing why note fix *speed adapter_sha256", name="MeantModelLine", parts=[_USED]
    ),
    Shape(
        ModelCard,
        "name digest parameters_b chats calls_tools context_window served_window remote",
        name="OllamaModelLine",
    ),
    Shape(
        CatalogueEntry,
        "name called profile stored size_bytes begun_bytes memory_bytes licence context_window parameters_b dialect "
        "measured sha256 path",
        name="CatalogueLine",
    ),
    Shape(WeightsFile, name="FileLine"),
    Shape(
        LoadedModel,
        "name path pid loading context_window slots in_use idle_for_s idle_s memory_bytes",
        name="LoadedLine",
    ),
]
_OLLAMA = Shape(OllamaFound, "base_url running version startable models", name="OllamaLine", parts=_PARTS)
_SHELF = Shape(Shelf, "runtime folder catalogue files loaded", name="EmbeddedLine", parts=_PARTS)
MODELS = Shape(
    ModelList,
    "default_model_key=default_key routing_model_key=routing_key models=keys ollama embedded=shelf",
    name="Models",
    parts=[*_PARTS, _OLLAMA, _SHELF],
)
PULLED_MODEL = Shape(PulledModel)
RECOMMENDED = Shape(
    Recommendation,
    "name why memory_bytes cores models",
    name="RecommendedModel",
    parts=[
        Shape(Fit, "called=model.called full_name=model.name fits why memory_bytes=model.memory_bytes", name="FitLine")
    ],
)
PROBED_MODEL = Shape(
    Probed,
    "*settings why dialect dialect_before=settings.dialect trials context_window=window *speed kept problem",
    name="ProbedModel",
    parts=[_USED, Shape(DialectTrial, name="TrialLine")],
)
