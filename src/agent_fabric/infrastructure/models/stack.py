"""The parts that ask models, joined; see `models` for why this is a module of its own."""

import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from agent_fabric.application.ports.llm import ChatClient, ChatClients, Notice
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, ModelForbidden
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.domain.runs.task import Priority
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.models.cards import CardFile, cards_file
from agent_fabric.infrastructure.models.chooser import ConfiguredModels, RecentChoices, settings_as_configured
from agent_fabric.infrastructure.models.custom import CustomBackend
from agent_fabric.infrastructure.models.embedded import EmbeddedBackend
from agent_fabric.infrastructure.models.fallback import FallbackChatClients
from agent_fabric.infrastructure.models.managed import ManagedBackend, SwitchedModel
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.infrastructure.models.openai_compatible import OpenAICompatibleBackend
from agent_fabric.infrastructure.models.queue import Queues, ServerQueue
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedLlama


class Backend(Protocol):
    """One kind of model server."""

    async def ready(self, settings: ModelSettings, notice: Notice) -> ChatClient:
        """Return the client of a model; start, load or fetch what it needs. Cheap when everything is there.

        Raises:
            ModelError: the model cannot be had.
            ConfigError: the settings cannot be used.
            MissingExtra: the backend is not installed.
        """
        ...


class BackendClients:
    """ChatClients that chooses by `settings.backend`."""

    def __init__(self, backends: Mapping[str, Backend], queues: Queues) -> None:
        self._backends = backends
        self._queues = queues

    def turn(self, settings: ModelSettings, *, priority: Priority, notice: Notice) -> "_Turn":
        backend = self._backends.get(settings.backend)
        if backend is None:
            raise ConfigError(
                f"There is no backend {settings.backend!r}", hint=f"Backends: {', '.join(self._backends)}."
            )
        queue = self._queues.for_server(settings.base_url, settings.slots)
        return _Turn(backend, queue, settings, priority, notice)


@dataclass(slots=True)
class _Turn:
    """A context manager by hand: a generator would cost a fast server's run more than the rest of this module."""

    backend: Backend
    queue: ServerQueue
    settings: ModelSettings
    priority: Priority
    notice: Notice

    async def __aenter__(self) -> ChatClient:
        client = await self.backend.ready(self.settings, self.notice)
        await self.queue.enter(self.priority, self.notice)
        return client

    async def __aexit__(self, *_: object) -> None:
        self.queue.leave()


@dataclass(frozen=True, slots=True)
class OfflineChatClients:
    """ChatClients that gives no model of another machine."""

    inner: ChatClients

    def turn(
        self, settings: ModelSettings, *, priority: Priority, notice: Notice
    ) -> AbstractAsyncContextManager[ChatClient]:
        """Give a model of this machine; about others, nothing is looked up and no connection is opened.

        Raises:
            ModelForbidden: the model is not on this machine.
        """
        if not settings.is_local:
            raise ModelForbidden(
                f"The model {settings.model!r} at {settings.base_url} is not on this machine, and `offline: true` "
                "forbids asking it",
                hint="Use a model on this machine with --model-key, or set `offline: false`.",
            )
        return self.inner.turn(settings, priority=priority, notice=notice)


@dataclass(frozen=True, slots=True)
class ModelStack:
    """What asks models, and what knows them."""

    clients: ChatClients
    chooser: ConfiguredModels
    choices: RecentChoices
    """The chooser for runs."""
    queues: Queues
    cards: CardFile
    ollama: OllamaBackend
    embedded: EmbeddedBackend
    session: HttpSession
    resolve: Resolve
    """Gives the keys that are not in the environment."""
    managed: ManagedBackend | None = None
    """The llama-server that fabric owns; None: it owns none."""

    async def aclose(self) -> None:
        """Close connections and end our llama-server; the embedded model stays loaded for others, for a while."""
        if self.managed is not None:
            await self.managed.llama.aclose()
        await self.embedded.aclose()
        await self.session.aclose()


def build_model_stack(config: FabricConfig, resolve: Resolve, root: Path | None = None) -> ModelStack:
    """Join the parts as the configuration says; `resolve` gives the keys that are not in the environment.

    `root` is the fabric folder, whose last switch of the managed model counts; None: what is configured counts.

    Raises:
        ConfigError: `cloud_fallback` names a model that is not at an address.
    """
    session, queues, cards = HttpSession(), Queues(SystemClock()), CardFile(cards_file(os.environ))
    ollama = OllamaBackend(
        session,
        ensure=config.local_llm_ensure_available,
        start_cmd=config.local_llm_start_cmd,
        auto_pull=config.auto_pull_if_missing and not config.offline,
        resolve=resolve,
    )
    embedded = EmbeddedBackend(
        environ=os.environ,
        session=session,
        ensure=config.local_llm_ensure_available,
        download=config.auto_pull_if_missing and not config.offline,
        idle_s=config.embedded.idle_s,
        threads=config.embedded.threads,
        caches_prompts=config.encryption != "all",
    )
    generic = OpenAICompatibleBackend(session, resolve)
    backends: dict[str, Backend] = {
        "generic": generic,
        "ollama": ollama,
        "embedded": embedded,
        "custom": CustomBackend(),
    }
    managed = None
    if config.managed_llama is not None:
        switched = None if root is None else SwitchedModel(config.managed_llama, root, os.environ)
        llama = ManagedLlama(config.managed_llama if switched is None else switched.read(), environ=os.environ)
        managed = backends["managed"] = ManagedBackend(
            llama, session, queues, ensure=config.local_llm_ensure_available, switched=switched
        )
    clients: ChatClients = BackendClients(backends, queues)
    if config.offline:
        clients = OfflineChatClients(clients)
    if config.cloud_fallback is not None:
        key = config.cloud_fallback.model_key
        clients = FallbackChatClients(
            clients, settings_as_configured(key, config.models[key]), config.cloud_fallback.policy
        )
    chooser = ConfiguredModels(
        models=config.models,
        default_key=config.default_model_key,
        ensure=config.local_llm_ensure_available,
        embedded_window=config.embedded.context_window,
        embedded_slots=config.embedded.slots,
        generic=generic,
        ollama=ollama,
        cards=cards,
        managed=managed,
        offline=config.offline,
    )
    return ModelStack(
        clients=clients,
        chooser=chooser,
        choices=RecentChoices(chooser, SystemClock()),
        queues=queues,
        cards=cards,
        ollama=ollama,
        embedded=embedded,
        session=session,
        resolve=resolve,
        managed=managed,
    )
