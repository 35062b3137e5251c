"""The models inside agent-fabric: llama.cpp in a process of its own, which all runs of a user share."""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

from agent_fabric.application.ports.llm import Notice
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ModelUnreachable, WeightsUnavailable
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import ModelSettings, ToolDialect
from agent_fabric.infrastructure.models.embedded_client import EmbeddedClient
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.infrastructure.models.openai_compatible import OpenAICompatibleBackend
from agent_fabric.infrastructure.models.prompt_cache import PromptCache, prompt_cache_folder
from agent_fabric.infrastructure.models.servers.llama_servers import (
    DEFAULT_CONTEXT_WINDOW,
    LlamaServers,
    ServerSpec,
    state_of,
)
from agent_fabric.infrastructure.models.weights.adapter import Base, check_adapter
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, find
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder, models_folder
from agent_fabric.infrastructure.models.weights.gguf import card_of_file
from agent_fabric.infrastructure.threads import on_own_thread


def is_path(name: str) -> bool:
    """Tell whether a model is named by the path of its file, not by its name in the catalogue."""
    return "/" in name or "\\" in name


def base_of(name: str, folder: ModelFolder) -> Base:
    """Return the weights of a model by its name in the catalogue or the path of its file."""
    if is_path(name):
        return Base(Path(name), None)
    model = find(name)
    return Base(folder.file_of(model), model.sha256)


async def embedded_card(name: str | None, key: str) -> ModelCard:
    """Return the card of a model by its name in the catalogue or the path of its file, else the key's own.

    A file is read on a thread: its disk may be slow.

    Raises:
        ConfigError: there is no such model.
    """
    if name is not None and is_path(name):
        return await on_own_thread(lambda: _card_of_file(name))
    model = find(name) if name else next((each for each in CATALOGUE if each.profile == key), CATALOGUE[0])
    return ModelCard(
        name=model.name,
        digest=model.sha256,
        parameters_b=model.parameters / 1e9,
        dialect=model.dialect,
        context_window=model.context_window,
        compact=True,
    )


def _card_of_file(name: str) -> ModelCard:
    path = Path(name).expanduser()
    # llama.cpp can hold any model to a schema, and small ones need it.
    return replace(card_of_file(path), name=str(path), dialect=ToolDialect.SCHEMA)


@dataclass(kw_only=True)
class EmbeddedBackend:
    """Backend that fetches the weights, starts the server, and starts it again when it died."""

    environ: Mapping[str, str]
    """Says where the user's models and servers are."""
    session: HttpSession
    ensure: bool
    """Whether a server may be started."""
    download: bool
    """Whether weights may be downloaded."""
    idle_s: float
    threads: int | None
    caches_prompts: bool = True
    """Whether what a model has read of its instructions may be kept on disk."""
    _checked: set[str] = field(default_factory=set)
    """Adapters, with what they were found to belong to."""

    @cached_property
    def _clients(self) -> OpenAICompatibleBackend:
        return OpenAICompatibleBackend(self.session)

    @cached_property
    def weights(self) -> Weights:
        """The user's models.

        Raises:
            ConfigError: there is no folder for them.
        """
        return Weights(ModelFolder(models_folder(self.environ)), environ=self.environ)

    @cached_property
    def servers(self) -> LlamaServers:
        """The user's servers.

        Raises:
            ConfigError: there is no folder for them.
        """
        return LlamaServers(
            environ=self.environ, prompt_cache=None if self._prompt_cache is None else self._prompt_cache.folder
        )

    @cached_property
    def _prompt_cache(self) -> PromptCache | None:
        folder = prompt_cache_folder(self.environ) if self.caches_prompts else None
        kept = None if folder is None else PromptCache(folder)
        return kept if kept is not None and kept.create() else None

    async def ready(self, settings: ModelSettings, notice: Notice) -> EmbeddedClient:
        if not self.ensure:
            raise ModelUnreachable(
                "The embedded model is not running, and nothing is to be started",
                hint="Leave out --no-ensure, or set `local_llm_ensure_available: true`.",
            )
        await self._check_adapter(settings)
        spec = ServerSpec(
            model=await self._file(settings.model, notice),
            adapter=Path(settings.adapter) if settings.adapter else None,
            label=Path(settings.model).stem if is_path(settings.model) else settings.model,
            context_window=settings.context_window or DEFAULT_CONTEXT_WINDOW,
            slots=settings.slots or 1,
            threads=self.threads,
            idle_s=self.idle_s,
        )
        server = await self.servers.ensure(spec, notice)
        client = self._clients.client_at(server, settings)
        return EmbeddedClient(client, server, spec, self._prompt_cache, notice)

    async def _check_adapter(self, settings: ModelSettings) -> None:
        """Look, before anything is downloaded, whether an adapter belongs to the weights."""
        if not settings.adapter:
            return
        adapter, base = Path(settings.adapter), base_of(settings.model, self.weights.folder)
        # Either file may be replaced while this process lives; weights of the catalogue are bound by their hash.
        key = f"{state_of(adapter)}|{base.sha256 or state_of(base.file)}"
        if key not in self._checked:
            await on_own_thread(lambda: check_adapter(adapter, base))
            self._checked.add(key)

    async def _file(self, name: str, notice: Notice) -> Path:
        if is_path(name):
            return Path(name)
        model = find(name)
        if not self.download and not self.weights.folder.is_verified(model):
            raise WeightsUnavailable(
                f"The model {model.name} is not downloaded, and `auto_pull_if_missing` or `offline` forbids it",
                hint=f"Download it with: fabric models pull {model.called}",
            )
        return await self.weights.ensure(model, notice)

    async def aclose(self) -> None:
        """Leave the server to others."""
        if "servers" in vars(self):  # someone asked for one
            await self.servers.aclose()
