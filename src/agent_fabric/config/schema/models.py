"""The models that runs can use."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field

from agent_fabric.config.schema.values import (
    SETTINGS,
    AbsolutePath,
    BaseAddress,
    HeaderName,
    HeaderValue,
    SecretReference,
    Text,
)


class ModelConfig(BaseModel):
    """One model: where it is served and how it is asked."""

    model_config = SETTINGS

    base_url: BaseAddress
    """Address of an OpenAI-compatible API; `/chat/completions` is added to it."""
    model: Text
    """The model's name as its server knows it."""
    backend: Literal["ollama", "generic"] = "generic"
    """`ollama` for an Ollama server, which can also pull models; `generic` for any other OpenAI-compatible server."""
    temperature: float = Field(default=0.1, ge=0, le=2)
    """How freely the model chooses its words; low values make tool calls dependable."""
    top_p: float = Field(default=0.9, gt=0, le=1)
    """The share of likely words that the model chooses from."""
    max_tokens: int = Field(default=2048, ge=1)
    """The longest answer the model may give, in tokens."""
    timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    """How long one answer may take; a local model may have to be loaded first."""
    connect_timeout_s: float = Field(default=2.5, gt=0, le=86_400)
    """How long the server may take to accept a connection."""
    context_window: int | None = Field(default=None, ge=1)
    """How many tokens fit, prompt and answer together. Set: conversations are shortened before they fill it. Not set:
    only when the server says that one is too long."""
    api_key: SecretReference | None = None
    """Where the key is kept: `env:NAME` reads the environment variable NAME. A key itself is refused."""
    ca_file: AbsolutePath | None = None
    """Certificates to trust for this server, as an absolute path to a PEM file."""
    headers: Mapping[HeaderName, HeaderValue] = {}
    """HTTP headers sent with every request. They are part of a run's log: write a secret as `env:NAME`."""
