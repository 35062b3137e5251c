"""Joins what is needed to add and look up documents and facts; nothing that drives a run is imported."""

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agent_fabric.application.memory.add_document import AddDocument
from agent_fabric.application.memory.brief_run import BriefRun
from agent_fabric.application.memory.embed_passages import EmbedPassages, FindMissingVectors
from agent_fabric.application.memory.embed_uploads import EmbedUploads
from agent_fabric.application.memory.forget_document import ForgetDocument, RemoveRemains
from agent_fabric.application.memory.import_facts import ImportFacts
from agent_fabric.application.memory.propose_fact import ProposeFact, RememberFact
from agent_fabric.application.memory.review_fact import ReviewFact
from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.embeddings import Embedder
from agent_fabric.application.ports.memory import MemoryStore, RunMemory
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.search_runs import SearchRuns
from agent_fabric.bootstrap.records import Records, open_secrets
from agent_fabric.bootstrap.runs import retention_of
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.runs import RunIndexConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, MissingExtra, ModelForbidden
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.domain.memory.ingestion import INGESTION, ingestion_inputs
from agent_fabric.domain.memory.learning import Learning
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.domain.runs.task import Priority, Task
from agent_fabric.infrastructure.memory.document_files import DocumentFiles
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.infrastructure.observability.operations_log import operations_log

if TYPE_CHECKING:
    from agent_fabric.bootstrap.local import LocalFabric
    from agent_fabric.bootstrap.workflows import Workflows


@dataclass(frozen=True, slots=True)
class Memory:
    """The use cases of memory."""

    store: MemoryStore
    add: AddDocument
    search: SearchMemory
    remember: RememberFact
    review: ReviewFact
    forget_document: ForgetDocument
    remove_remains: RemoveRemains
    import_facts: ImportFacts


def open_memory(records: Records, config: FabricConfig) -> Memory:
    """Join the parts. Where no embedder is installed, documents are found by their words only.

    Raises:
        ConfigError, ModelForbidden: see `recall.embedder_for`.
    """
    storage = records.storage
    embedder = _embedder(records, config)
    embed = None if embedder is None else EmbedPassages(storage.memory.passages, embedder)
    return Memory(
        store=storage.memory,
        add=AddDocument(storage.memory, DocumentFiles(), storage.clock, embed),
        search=SearchMemory(storage.memory, storage.clock, embedder),
        remember=RememberFact(storage.memory.facts, storage.clock),
        review=ReviewFact(storage.memory, storage.clock, storage.reader, storage.open_catalogue),
        forget_document=ForgetDocument(storage.memory, storage.reader),
        remove_remains=RemoveRemains(storage.reader, retention_of(records)),
        import_facts=ImportFacts(storage.memory.facts, storage.clock),
    )


def open_run_memory(records: Records, config: FabricConfig) -> RunMemory:
    """Join what the tools of runs need; for errors see `open_memory`."""
    storage, learning = records.storage, Learning(config.memory.learning)
    propose = ProposeFact(storage.memory.facts, storage.runs, storage.clock, learning)
    search = open_memory(records, config).search
    by_words = SearchMemory(storage.memory, storage.clock)
    brief = BriefRun(storage.memory, search, by_words, records.snapshots_for, storage.clock)
    embedder = search.embedder
    embed = None if embedder is None else EmbedPassages(storage.memory.passages, embedder)
    add = AddDocument(storage.memory, DocumentFiles(), storage.clock)
    return RunMemory(search, propose, storage.memory.uses, brief, add, embed)


def ingestion_task(
    workflows: "Workflows", *, files: Sequence[str], pages: Sequence[str], labels: Sequence[str], team: bool
) -> Task:
    """Return the task of a run that adds documents."""
    from agent_fabric.application.ports.workflows import SoundWorkflow  # noqa: PLC0415 - few add many
    from agent_fabric.domain.workflows.definition import definition_from  # noqa: PLC0415 - as above

    workflow = SoundWorkflow(plain=INGESTION, definition=definition_from(INGESTION), source="")
    return workflows.task(workflow, ingestion_inputs(files, pages, labels, team=team), priority=Priority.BATCH)


def _embedder(records: Records, config: FabricConfig) -> Embedder | None:
    resolve = open_secrets(config.secrets, records.layout.root, os.environ).chain.resolve
    try:
        return embedder_for(config, resolve)
    except MissingExtra:
        return None


OLLAMA_PORT = 11434


def search_runs(records: Records, config: FabricConfig) -> SearchRuns:
    """Return the use case, with the embedder that is configured.

    Raises:
        ConfigError: the configuration names a server but no model, or the other way round.
        MissingExtra: the embedded one is wanted but not installed.
        ModelForbidden: the server is on another machine, and `offline` is set.
    """
    resolve = open_secrets(config.secrets, records.layout.root, os.environ).chain.resolve
    return SearchRuns(embedder_for(config, resolve), records.storage.vectors)


def embedder_for(config: FabricConfig, resolve: Resolve | None = None) -> Embedder:
    """Return the embedder that the configuration asks for; for errors see `search_runs`.

    `resolve` gives a key that is not in the environment.
    """
    index = config.run_index
    backend = backend_of(index)
    if backend == "embedded":
        return SentenceEncoder()
    model, base_url = index.embedding_model, index.embedding_base_url
    if model is None or base_url is None:
        missing = "embedding_model" if model is None else "embedding_base_url"
        raise ConfigError(
            f"`run_index.{missing}` is not set, but a server is to be asked",
            hint="Set both `run_index.embedding_model` and `run_index.embedding_base_url`, or neither.",
        )
    if config.offline and not is_local_url(base_url):
        raise ModelForbidden(
            f"The embedding server {base_url} is on another machine, and `offline: true` forbids asking it",
            hint="Set `run_index.embedding_backend: embedded`, or `offline: false`.",
        )
    return _asking_server(index, backend, model, base_url, resolve)


def backend_of(index: RunIndexConfig) -> str:
    """Return who makes the vectors: `embedded`, `ollama` or `generic`."""
    if index.embedding_backend is not None:
        return index.embedding_backend
    if index.embedding_base_url is None:
        return "embedded" if index.embedding_model is None else "generic"
    return "ollama" if urlsplit(index.embedding_base_url).port == OLLAMA_PORT else "generic"


def _asking_server(index: RunIndexConfig, backend: str, model: str, base_url: str, resolve: Resolve | None) -> Embedder:
    # Importing aiohttp takes longer than a search with the embedded one.
    from agent_fabric.infrastructure.models.embeddings.server import OllamaEmbedder, OpenAIEmbedder  # noqa: PLC0415
    from agent_fabric.infrastructure.models.model_http import ServerAddress, environment_only  # noqa: PLC0415

    resolve = resolve or environment_only
    if backend == "ollama":
        # Ollama's own routes lie beside /v1, which people are used to write.
        address = ServerAddress(base_url=base_url.removesuffix("/v1"), api_key=index.embedding_api_key)
        return OllamaEmbedder(address, model, resolve)
    return OpenAIEmbedder(ServerAddress(base_url=base_url, api_key=index.embedding_api_key), model, resolve)


SERVER: Final = Principal("server", Kind.LOCAL, widen((Scope.RUNS,)))
"""In whose name vectors are made that no user has asked for: the log of such a run holds counts, and no texts."""


class ServedMemory:
    """The memory of a server, joined with the first request: the embedder costs memory."""

    def __init__(
        self, local: "LocalFabric", config: FabricConfig, workflows: "Workflows", dispatch: DispatchRuns
    ) -> None:
        self._local, self._config, self._dispatch = local, config, dispatch
        self.workflows = workflows
        self.embed_uploads = EmbedUploads(
            local.execute_task,
            dispatch,
            lambda: ingestion_task(workflows, files=(), pages=(), labels=(), team=False),
        )

    @cached_property
    def memory(self) -> Memory:
        return open_memory(self._local.records, self._config)

    def find_missing_vectors(self) -> FindMissingVectors:
        """Return what has missing vectors made."""
        storage = self._local.records.storage
        return FindMissingVectors(
            storage.memory,
            lambda: self.memory.search.embedder,
            storage.catalogue,
            self._dispatch,
            lambda: self.embed_uploads(SERVER),
            storage.agent_locks,
            operations_log("memory"),
        )
