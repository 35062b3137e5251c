"""The parts that ask models, joined; see `models` for why this is a module of its own."""

import os
from dataclasses import dataclass
from pathlib import Path

from agent_fabric.application.ports.llm import ChatClients
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.models.cards import CardFile, cards_file
from agent_fabric.infrastructure.models.chooser import ConfiguredModels, RecentChoices, settings_as_configured
from agent_fabric.infrastructure.models.clients import Backend, BackendClients, OfflineChatClients
from agent_fabric.infrastructure.models.custom import CustomBackend
from agent_fabric.infrastructure.models.embedded import EmbeddedBackend
from agent_fabric.infrastructure.models.fallback import FallbackChatClients
from agent_fabric.infrastructure.models.managed import ManagedBackend
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.infrastructure.models.openai_compatible import HttpSession, OpenAICompatibleBackend
from agent_fabric.infrastructure.models.queue import Queues
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedLlama
from agent_fabric.infrastructure.models.switched_model import SwitchedModel


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
