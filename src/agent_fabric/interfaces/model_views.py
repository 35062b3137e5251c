"""Models as plain data: what `fabric models list --json` prints and `GET /models` answers."""

from typing import Any

from agent_fabric.application.models.list_models import MeantModel, ModelList
from agent_fabric.application.models.probe_model import Probed
from agent_fabric.application.ports.models import CatalogueEntry, LoadedModel, OllamaFound
from agent_fabric.domain.messages import ModelSettings
from agent_fabric.domain.models import ModelCard
from agent_fabric.infrastructure.llm.egress import is_here


def models_object(found: ModelList) -> dict[str, Any]:
    """Return everything about the models at hand."""
    return {
        "default_model_key": found.default_key,
        "routing_model_key": found.routing_key,
        "models": [_meant(each) for each in found.keys],
        "ollama": [_ollama(each) for each in found.ollama],
        "embedded": {
            "runtime": found.shelf.runtime,
            "folder": found.shelf.folder,
            "catalogue": [_entry(each) for each in found.shelf.catalogue],
            "files": [each._asdict() for each in found.shelf.files],
            "loaded": [_loaded(each) for each in found.loaded],
        },
    }


def probed_object(probed: Probed) -> dict[str, Any]:
    """Return what a probe found out."""
    return {
        **_settings(probed.settings),
        "why": probed.why,
        "dialect": None if probed.dialect is None else probed.dialect.value,
        "dialect_before": probed.settings.dialect,
        "trials": [{"dialect": each.dialect.value, "worked": each.worked, "said": each.said} for each in probed.trials],
        "context_window": probed.window,
        **probed.speed._asdict(),
        "kept": probed.kept,
        "problem": probed.problem,
    }


def _meant(meant: MeantModel) -> dict[str, Any]:
    about = {} if meant.settings is None else _settings(meant.settings)
    return {
        **about,
        "key": meant.key,  # not that of the settings: one embedded model may serve several keys
        "standing": meant.standing.value,
        "why": meant.why,
        "note": meant.note,
        "fix": meant.fix,
        **meant.speed._asdict(),
    }


def _settings(settings: ModelSettings) -> dict[str, Any]:
    return {
        "key": settings.key,
        "backend": settings.backend,
        "model": settings.model,
        "base_url": None if settings.is_ours else settings.base_url,
        "context_window": settings.context_window,
        "dialect": str(settings.dialect),
        "strict_native": settings.strict_native,
        "compact": settings.compact,
        "slots": settings.slots,
        "local": is_here(settings),
    }


def _ollama(found: OllamaFound) -> dict[str, Any]:
    return {
        "base_url": found.base_url,
        "running": found.running,
        "version": found.version,
        "startable": found.startable,
        "models": [_card(card) for card in found.models],
    }


def _card(card: ModelCard) -> dict[str, Any]:
    return {
        "name": card.name,
        "digest": card.digest,
        "parameters_b": card.parameters_b,
        "chats": card.chats,
        "calls_tools": card.calls_tools,
        "context_window": card.context_window,
        "served_window": card.served_window,
        "remote": card.remote,
    }


def _entry(entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "profile": entry.profile,
        "stored": entry.stored.value,
        "size_bytes": entry.size_bytes,
        "begun_bytes": entry.begun_bytes,
        "licence": entry.licence,
        "context_window": entry.context_window,
        "parameters_b": entry.parameters_b,
        "dialect": entry.dialect.value,
        "path": entry.path,
    }


def _loaded(loaded: LoadedModel) -> dict[str, Any]:
    return {
        "name": loaded.name,
        "path": loaded.path,
        "pid": loaded.pid,
        "loading": loaded.loading,
        "context_window": loaded.context_window,
        "slots": loaded.slots,
        "in_use": loaded.in_use,
        "idle_for_s": loaded.idle_for_s,
        "idle_s": loaded.idle_s,
        "memory_bytes": loaded.memory_bytes,
    }
