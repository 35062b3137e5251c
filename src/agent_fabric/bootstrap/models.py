"""Joins what shows models and takes care of them: `fabric models`, `fabric doctor`, `GET /models`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from agent_fabric.application.models.list_models import ListModels, ModelList
from agent_fabric.application.models.probe_model import ProbeModel
from agent_fabric.application.models.recommend_model import Recommendation, recommend
from agent_fabric.application.ports.llm import Notice
from agent_fabric.application.ports.models import PulledModel
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.machine import ThisMachine
from agent_fabric.infrastructure.models.chooser import OLLAMA_URL, backend_of
from agent_fabric.infrastructure.models.model_http import ServerAddress, environment_only
from agent_fabric.infrastructure.models.named import pulled_by
from agent_fabric.infrastructure.models.servers.embedded_child import usable_cores
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers
from agent_fabric.infrastructure.models.stack import ModelStack, build_model_stack
from agent_fabric.infrastructure.models.survey import LoopbackServers, MachineSurvey, ServerFacts
from agent_fabric.infrastructure.models.weights.catalogue import CatalogueModel
from agent_fabric.infrastructure.models.weights.download import Weights


@dataclass(frozen=True, slots=True)
class ModelsHere:
    """What a person can do with models."""

    config: FabricConfig
    stack: ModelStack

    @property
    def weights(self) -> Weights:
        return self.stack.embedded.weights

    @property
    def servers(self) -> LlamaServers:
        """The processes that have one of them in memory."""
        return self.stack.embedded.servers

    @property
    def probe_model(self) -> ProbeModel:
        """Return the use case that asks a model what it can do."""
        stack = self.stack
        return ProbeModel(
            chooser=stack.chooser,
            clients=stack.clients,
            card_of=ServerFacts(stack.session, stack.ollama, stack.resolve).card,
            remember=stack.cards.remember,
            clock=SystemClock(),
        )

    async def pull(self, name: str, notice: Notice) -> PulledModel:
        """Download a model; an interrupted download resumes where it stopped.

        Raises:
            ModelError: there is none of this name, or it cannot be had.
        """
        found = await self.list_models()
        target = pulled_by(name, found.ollama)
        if isinstance(target, CatalogueModel):
            path = await self.weights.ensure(target, notice)
            return PulledModel(target.name, str(path), target.size_bytes, "agent-fabric")
        await self.stack.ollama.server(ServerAddress(base_url=target.base_url)).pull(name, notice)
        return PulledModel(name, None, None, target.base_url)

    def recommend(self) -> Recommendation:
        """Say which embedded model fits this machine."""
        catalogue = listing(self.config, self.stack).survey.shelf().catalogue
        return recommend(catalogue, ThisMachine().facts().memory_bytes, usable_cores())

    async def list_models(self) -> ModelList:
        return await listing(self.config, self.stack)()


@asynccontextmanager
async def open_models(
    config: FabricConfig, resolve: Resolve = environment_only, root: Path | None = None
) -> AsyncIterator[ModelsHere]:
    """Give what takes care of models, and close it. A second model for when the first does badly has no part in it.

    `root` is the fabric folder, whose last switch of the managed model counts; None: what is configured counts.

    Raises:
        ConfigError: the environment names no place for models.
    """
    config = config.model_copy(update={"cloud_fallback": None})
    stack = build_model_stack(config, resolve, root)
    try:
        yield ModelsHere(config, stack)
    finally:
        await stack.aclose()


def listing(config: FabricConfig, stack: ModelStack) -> ListModels:
    """Return the use case that looks around once; unlike a run it starts nothing and asks no other machine."""
    here = LoopbackServers(session=stack.session, start_cmd=config.local_llm_start_cmd, resolve=stack.resolve)
    return ListModels(
        chooser=replace(stack.chooser, ollama=here, offline=True),  # what is on another machine is not asked
        survey=MachineSurvey(
            here=here, folder=stack.embedded.weights.folder, servers=stack.embedded.servers, cards=stack.cards
        ),
        keys=list(dict.fromkeys((config.default_model_key, config.routing_model_key, *config.models))),
        default_key=config.default_model_key,
        routing_key=config.routing_model_key,
        ollama_urls=_ollama_urls(config),
        ensure=config.local_llm_ensure_available,
        fetch=config.auto_pull_if_missing,
        offline=config.offline,
    )


def _ollama_urls(config: FabricConfig) -> Sequence[str]:
    """Return where Ollama is expected: its usual place, unless all that is configured names others."""
    named = [each.base_url or OLLAMA_URL for each in config.models.values() if backend_of(each) == "ollama"]
    automatic = [OLLAMA_URL] if any(backend_of(each) == "auto" for each in config.models.values()) else []
    return list(dict.fromkeys(automatic + named)) or [OLLAMA_URL]
