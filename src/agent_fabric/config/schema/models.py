"""The models that runs can use."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import (
    AbsolutePath,
    BaseAddress,
    Builder,
    HeaderName,
    HeaderValue,
    SecretReference,
    Settings,
    Text,
)


class PriceConfig(Settings):
    """What a model's tokens cost, for each million of them."""

    input: float = Field(ge=0)
    """For a million tokens of prompt."""
    output: float = Field(ge=0)
    """For a million tokens of answer."""
    cached_input: float | None = Field(default=None, ge=0)
    """For a million tokens of prompt that the server still knew. Not set: as much as others."""
    currency: Text = "USD"
    """What the numbers count."""


class ModelConfig(Settings):
    """One model: where it is served and how it is asked."""

    base_url: BaseAddress | None = None
    """Address of an OpenAI-compatible API; `/chat/completions` is added to it. Not set: this machine's Ollama, or the
    embedded model."""
    model: Text | None = None
    """The model's name as its server knows it; for the embedded backend a name of the catalogue or the absolute path of
    a GGUF file. Not set: one is chosen from what is there."""
    backend: Literal["auto", "ollama", "generic", "embedded", "managed"] = "auto"
    """`ollama` for an Ollama server, which can also pull models; `generic` for any other OpenAI-compatible server;
    `embedded` for a model inside agent-fabric; `managed` for the llama-server of `managed_llama`. `auto`: with a
    `base_url` the server there; without, a local Ollama that has a usable model, else the embedded one."""
    builder: Builder | None = None
    """A function that builds a client of your own for this model, as `module:function`; `backend` is then not used."""
    temperature: float = Field(default=0.1, ge=0, le=2)
    """How freely the model chooses its words; low values make tool calls dependable. Not set: 0 for embedded models."""
    top_p: float = Field(default=0.9, gt=0, le=1)
    """The share of likely words that the model chooses from."""
    max_tokens: int = Field(default=2048, ge=1)
    """The longest answer the model may give, in tokens."""
    max_answer_chars: int | None = Field(default=None, ge=1_000, le=16_000_000)
    """How many characters of one answer are taken: text, thoughts and the arguments of calls together. A longer one is
    cut there, its connection is closed, and the model is told. Not set: 128,000, or 8 for each token of `max_tokens` if
    that is more."""
    timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    """How long one answer may take; a local model may have to be loaded first."""
    connect_timeout_s: float = Field(default=2.5, gt=0, le=86_400)
    """How long the server may take to accept a connection."""
    context_window: int | None = Field(default=None, ge=256)
    """How many tokens fit, prompt and answer together. Set: an Ollama or embedded model gets this window, and
    conversations are shortened before they fill it. Not set: what the server says, if it says anything."""
    dialect: Literal["native", "schema", "text"] | None = None
    """How the model calls tools: `native` by the server's own tool calls; `schema` by JSON that the server forces it to
    write; `text` by a fenced block. Not set: what is known about the model, else native."""
    strict_native: bool = False
    """Whether a model that cannot call tools natively is an error, and calls that it writes as text stay text."""
    compact: bool | None = None
    """Whether the model gets short prompts, because it is small or slow. Not set: what is known about the model."""
    slots: int | None = Field(default=None, ge=1, le=1024)
    """How many requests the server serves at once; more wait here, in order. Not set: no limit for other servers, one
    for the embedded model and Ollama."""
    price: PriceConfig | None = None
    """What its tokens cost; runs then show their cost."""
    api_key: SecretReference | None = None
    """Where the key is kept: `env:NAME` reads the environment variable NAME, `file:NAME` what `fabric secrets set NAME`
    has kept, `vault:path#field` the vault. A key itself is refused."""
    ca_file: AbsolutePath | None = None
    """Certificates to trust for this server, as an absolute path to a PEM file."""
    headers: Mapping[HeaderName, HeaderValue] = {}
    """HTTP headers sent with every request. They are part of a run's log: write a secret as `env:NAME`,
    `file:NAME` or `vault:path#field`."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.backend == "generic" and self.base_url is None:
            raise ConfigProblem("needs `base_url`, the address of the server")
        if self.backend == "embedded" and self.base_url is not None:
            raise ConfigProblem("must not have `base_url`: the embedded model has no address")
        if self.backend == "embedded" and self.model is not None and "/" in self.model[1:]:
            self._name_a_whole_path(self.model)
        if self.strict_native and self.dialect in {"schema", "text"}:
            raise ConfigProblem("must not have both `strict_native` and another `dialect` than native")
        if self.backend == "managed":
            self._leave_to_managed_llama()
        return self

    def _name_a_whole_path(self, path: str) -> None:
        if not path.startswith(("/", "~")):  # a run may be resumed in another folder
            raise ConfigProblem("must name a GGUF file by its absolute path", hint="For example ~/models/some.gguf")

    def _leave_to_managed_llama(self) -> None:
        told = {"base_url": "model", "model": "model", "slots": "parallel", "context_window": "context_window"}
        for name, instead in told.items():
            if getattr(self, name) is not None:
                raise ConfigProblem(f"must not have `{name}`", hint=f"`managed_llama.{instead}` says it.")
