"""ModelFacts: what a server says about one of its models."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.errors import ModelError
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.infrastructure.models.embedded import embedded_card
from agent_fabric.infrastructure.models.model_http import ModelHttp, ServerAddress, environment_only
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.infrastructure.models.openai_compatible import HttpSession

_QUICK_S = 5.0
_MAX_TOKENS = 2**31
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""What servers call a model's window in their list of models: vLLM, OpenRouter, Groq, LM Studio."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """ModelFacts over HTTP. What a server does not tell is not known; that is no error."""

    session: HttpSession
    ollama: OllamaBackend
    resolve: Resolve = environment_only

    async def card(self, settings: ModelSettings) -> ModelCard:
        if settings.backend == "embedded":
            return await embedded_card(settings.model, settings.key)
        if settings.backend == "ollama":
            try:
                found = await self.ollama.server(ServerAddress.of(settings)).card(settings.model)
            except ModelError:
                found = None
            return found or ModelCard(name=settings.model)
        if settings.backend == "managed":
            return ModelCard(name=settings.model, served_window=settings.context_window)
        window = await self._window(settings)
        return replace(ModelCard(name=settings.model), served_window=window)

    async def _window(self, settings: ModelSettings) -> int | None:
        http = ModelHttp(self.session(), ServerAddress.of(settings), self.resolve)
        base_url = settings.base_url.rstrip("/")
        props = await _object(http, f"{base_url.removesuffix('/v1')}/props")  # llama.cpp's own
        served = _mapping(props.get("default_generation_settings")).get("n_ctx")
        if (window := _window_of(served)) is not None:
            return window
        models = (await _object(http, f"{base_url}/models")).get("data")
        for entry in models if isinstance(models, list) else []:
            about = _mapping(entry)
            if about.get("id") == settings.model:
                windows = [_window_of(about.get(name)) for name in _WINDOW_FIELDS]
                return next((window for window in windows if window is not None), None)
        return None


async def _object(http: ModelHttp, url: str) -> Mapping[str, Any]:
    try:
        return _mapping(orjson.loads(await http.get(url, timeout_s=_QUICK_S)))
    except (ModelError, ValueError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _window_of(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_TOKENS else None
