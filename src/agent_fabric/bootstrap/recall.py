"""Joins what searches runs by meaning. Imported only by those who do."""

import os
from urllib.parse import urlsplit

from agent_fabric.application.ports.embeddings import Embedder
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.application.runs.search_runs import SearchRuns
from agent_fabric.bootstrap.records import Records
from agent_fabric.bootstrap.secrets import open_secrets
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.runs import RunIndexConfig
from agent_fabric.domain.errors import ConfigError, ModelForbidden
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder

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
