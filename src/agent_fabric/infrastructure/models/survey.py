"""ModelSurvey and facts about models: this machine's Ollama, its model servers, and the models inside agent-fabric."""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from threading import Event
from typing import Any, Final

import orjson

from agent_fabric.application.ports.llm import Notice
from agent_fabric.application.ports.models import CatalogueEntry, OllamaFound, Shelf, Stored, WeightsFile
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ModelError
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.domain.models.found_models import ModelCard, find_model
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.infrastructure.models.cards import CardFile
from agent_fabric.infrastructure.models.embedded import base_of, embedded_card
from agent_fabric.infrastructure.models.model_http import HttpSession, ModelHttp, ServerAddress, environment_only
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.infrastructure.models.ollama.server import OllamaServer, native_root
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers
from agent_fabric.infrastructure.models.weights.adapter import check_adapter
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, CatalogueModel
from agent_fabric.infrastructure.models.weights.folder import InstalledModel, ModelFolder
from agent_fabric.infrastructure.models.weights.mirrors import sha256_of
from agent_fabric.infrastructure.models.weights.runtime import runtime_version
from agent_fabric.infrastructure.models.wire_values import mapping_of
from agent_fabric.infrastructure.own_path import own_path
from agent_fabric.infrastructure.threads import on_own_thread

_QUICK_S = 5.0
_MAX_TOKENS = 2**31
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""What servers call a model's window in their list of models: vLLM, OpenRouter, Groq, LM Studio."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about models over HTTP. What a server does not tell is not known; that is no error."""

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
        http = ModelHttp(self.session, ServerAddress.of(settings), self.resolve)
        base_url = settings.base_url.rstrip("/")
        props = await _object(http, f"{base_url.removesuffix('/v1')}/props")  # llama.cpp's own
        served = mapping_of(props.get("default_generation_settings")).get("n_ctx")
        if (window := _window_of(served)) is not None:
            return window
        models = (await _object(http, f"{base_url}/models")).get("data")
        for entry in models if isinstance(models, list) else []:
            about = mapping_of(entry)
            if about.get("id") == settings.model:
                windows = [_window_of(about.get(name)) for name in _WINDOW_FIELDS]
                return next((window for window in windows if window is not None), None)
        return None


async def _object(http: ModelHttp, url: str) -> Mapping[str, Any]:
    try:
        return mapping_of(orjson.loads(await http.get(url, timeout_s=_QUICK_S)))
    except (ModelError, ValueError):
        return {}


def _window_of(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_TOKENS else None


LOOK_S: Final = 1.5
"""How long a server on this machine may take to answer before it counts as not there."""
CARDS_S: Final = 10.0
"""How long one that answers may take to tell about all its models, which it reads from disk."""


@dataclass(slots=True, kw_only=True)
class LoopbackServers:
    """OllamaModels that only look, only at this machine, and at each server once."""

    session: HttpSession
    start_cmd: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    resolve: Resolve = environment_only
    _found: dict[str, OllamaFound] = field(default_factory=dict)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find_models(
        self,
        base_url: str,
        notice: Notice,  # noqa: ARG002 - nothing here takes long
        address: ServerAddress | None = None,
    ) -> Sequence[ModelCard] | None:
        found = await self.ollama(base_url, address)
        return found.models if found.running else None

    async def ollama(self, base_url: str, address: ServerAddress | None = None) -> OllamaFound:
        """Return what is at an address; with `address`, by the key that it takes to be let in."""
        root = native_root(base_url)
        async with self._looking:
            known = self._found.get(root)
            if known is None or (address is not None and not known.running):
                known = self._found[root] = await self._look(base_url, address)
        return known

    async def _look(self, base_url: str, address: ServerAddress | None) -> OllamaFound:
        if not is_local_url(base_url):
            return OllamaFound(base_url, running=False)
        asked = address or ServerAddress(base_url=base_url)
        server = OllamaServer(self.session, replace(asked, connect_timeout_s=LOOK_S), resolve=self.resolve)
        version = None
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                version = await server.version()
        if version is not None:
            return OllamaFound(base_url, running=True, version=version, models=await _cards(server))
        startable = shutil.which(self.start_cmd[0], path=own_path(self.environ.get("PATH"))) is not None
        return OllamaFound(base_url, running=False, startable=startable)


@dataclass(slots=True, kw_only=True)
class MachineSurvey:
    """ModelSurvey of this machine, as it is now; make a new one to look again."""

    here: LoopbackServers
    folder: ModelFolder
    servers: LlamaServers
    cards: CardFile

    async def ollama(self, base_url: str) -> OllamaFound:
        return await self.here.ollama(base_url)

    async def answers(self, settings: ModelSettings) -> bool:
        http = ModelHttp(self.here.session, ServerAddress.of(settings), self.here.resolve)
        return await http.answers(f"{settings.base_url.rstrip('/')}/models", timeout_s=LOOK_S)

    def shelf(self) -> Shelf:
        installed = {each.path: each for each in self.folder.list_installed()}
        catalogue = [_entry(model, self.folder, installed.pop(self.folder.file_of(model), None)) for model in CATALOGUE]
        return Shelf(
            folder=str(self.folder.path),
            runtime=runtime_version(),
            catalogue=tuple(catalogue),
            loaded=tuple(self.servers.running()),
            files=tuple(WeightsFile(each.name, str(each.path), each.size_bytes) for each in installed.values()),
        )

    async def adapter_sha256(self, settings: ModelSettings) -> str:
        if not settings.adapter:
            return ""
        adapter, base = Path(settings.adapter), base_of(settings.model, self.folder)

        def look() -> str:
            check_adapter(adapter, base)
            return sha256_of(adapter, Event())

        return await on_own_thread(look)

    async def known_card(self, settings: ModelSettings) -> ModelCard:
        return self.cards.improve(await self._card(settings), settings.base_url)

    async def _card(self, settings: ModelSettings) -> ModelCard:
        """Return the card under whose name a probe of this model was kept."""
        if settings.backend == "embedded":
            return await embedded_card(settings.model, settings.key)
        named = ModelCard(name=settings.model)
        if settings.backend != "ollama":
            return named
        return find_model((await self.ollama(settings.base_url)).models, settings.model) or named


async def _cards(server: OllamaServer) -> tuple[ModelCard, ...]:
    try:
        async with asyncio.timeout(CARDS_S):
            return tuple(await server.cards())
    except (ModelError, TimeoutError):
        return ()


def _entry(model: CatalogueModel, folder: ModelFolder, installed: InstalledModel | None) -> CatalogueEntry:
    begun = 0
    if installed is not None:
        stored = Stored.CHECKED if installed.verified else Stored.UNCHECKED
    else:
        begun = folder.begun_bytes(model)
        stored = Stored.BEGUN if begun else Stored.MISSING
    return CatalogueEntry(
        name=model.name,
        profile=model.profile,
        called=model.called,
        memory_bytes=model.memory_bytes,
        measured=model.measured,
        sha256=model.sha256,
        size_bytes=model.size_bytes,
        licence=model.licence,
        context_window=model.context_window,
        parameters_b=model.parameters / 1e9,
        dialect=model.dialect,
        path=str(folder.file_of(model)),
        stored=stored,
        begun_bytes=begun,
    )
