"""Models as `fabric models list --json` prints them and `GET /models` answers."""

from typing import Any

from agent_fabric.application.models.list_models import ModelList
from agent_fabric.application.models.probe_model import Probed
from agent_fabric.domain.messages import ModelSettings
from agent_fabric.infrastructure.llm.egress import is_here
from agent_fabric.wire.models import (
    MODELS,
    PROBED_MODEL,
    ConfiguredModel,
    EmbeddedModels,
    Models,
    ProbedModel,
    UsedModel,
)


def models_object(found: ModelList) -> dict[str, Any]:
    """Return everything about the models at hand."""
    models = [ConfiguredModel(None if each.settings is None else _used(each.settings), each) for each in found.keys]
    embedded = EmbeddedModels(found.shelf, found.loaded)
    return MODELS.dump(Models(found.default_key, found.routing_key, models, found.ollama, embedded))


def probed_object(probed: Probed) -> dict[str, Any]:
    """Return what a probe found out."""
    return PROBED_MODEL.dump(ProbedModel(_used(probed.settings), probed))


def _used(settings: ModelSettings) -> UsedModel:
    return UsedModel(
        key=settings.key,
        backend=settings.backend,
        model=settings.model,
        base_url=None if settings.is_ours else settings.base_url,
        context_window=settings.context_window,
        dialect=str(settings.dialect),
        strict_native=settings.strict_native,
        compact=settings.compact,
        slots=settings.slots,
        local=is_here(settings),
    )
