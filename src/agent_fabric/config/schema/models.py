"""The models that runs can use, the servers that are started for them, and when a stronger one is asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings, Strict, model_validator
from agent_fabric.config.schema.values import (
    AbsolutePath,
    BaseAddress,
    Builder,
    HeaderName,
    HeaderValue,
    SecretReference,
    Text,
    Texts,
)


class CloudFallbackConfig(Settings):
    """When a second model may answer instead. Never used because the local server is down."""

    model_key: Text
    """Key of the model, under `models`, that answers instead."""
    policy: Literal["no_tool_calls", "malformed_args", "always"] = "no_tool_calls"
    """What the local model must have got wrong: `no_tool_calls`, `malformed_args`; `always` needs no reason."""


class EmbeddedConfig(Settings):
    """How the embedded model is run. All runs of a user share its process."""

    idle_s: float = Field(default=300.0, ge=1, le=86_400)
    """How long the process stays loaded after its last use."""
    context_window: int = Field(default=8192, ge=1024, le=131_072)
    """How many tokens fit, prompt and answer together, for each request that is served at once."""
    slots: int = Field(default=1, ge=1, le=64)
    """How many requests are served at once. Each takes memory and a share of the speed."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """How many processor cores it may use. Not set: all that this process may use."""


CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
"""How llama.cpp stores the keys or values of a conversation."""

_OURS = frozenset(
    (
        *("--host", "--port", "--api-key", "--api-key-file", "--api-prefix", "--reuse-port"),
        *("-m", "--model", "-c", "--ctx-size", "-np", "--parallel", "-fa", "--flash-attn"),
        *("-ctk", "--cache-type-k", "-ctv", "--cache-type-v", "-ngl", "--gpu-layers", "--n-gpu-layers"),
        *("--slots", "--no-slots", "--ssl-key-file", "--ssl-cert-file"),
    )
)
"""Arguments that settings of their own stand for, or that would cut us off from the server."""
_UNSAFE = frozenset(("--tools", "--agent", "-ag", "--mcp-servers-config", "--mcp-servers-json", "--ui-mcp-proxy"))
"""Arguments that let the server itself run commands, past every policy."""


def _extra_args(arguments: tuple[str, ...]) -> tuple[str, ...]:
    for argument in arguments:
        name = argument.partition("=")[0]
        if "\0" in argument:
            raise ConfigProblem("must not contain a null character")
        if name in _OURS:
            raise ConfigProblem(
                f"must not hold {name}", hint="Use the setting of that name; address and key are chosen at each start."
            )
        if name in _UNSAFE:
            raise ConfigProblem(f"must not hold {name}: it lets the server run commands that no policy has seen")
    return arguments


def _gguf(path: Path) -> Path:
    if path.suffix.lower() != ".gguf":
        raise ConfigProblem("must name a .gguf file")
    return path


class ManagedLlamaConfig(Settings):
    """How llama-server is started; a switch of the model replaces a part of it."""

    command: Annotated[tuple[Text, ...], Strict(strict=False), Field(min_length=1)] = ("llama-server",)
    """The program and, if it needs any, its first arguments."""
    model: Annotated[AbsolutePath, AfterValidator(_gguf)]
    """The model's file, as an absolute path to a GGUF file."""
    parallel: int = Field(default=1, ge=1, le=256)
    """How many conversations are answered at once."""
    context_window: int = Field(default=8192, ge=256, le=10_000_000)
    """Tokens that fit into each of these conversations, prompt and answer together."""
    flash_attention: Literal["on", "off", "auto"] = "auto"
    """Whether to use flash attention: faster and smaller where the hardware can; `auto` lets llama.cpp decide."""
    cache_type_k: CacheType = "f16"
    """How keys are stored; `q8_0` halves their memory at little cost."""
    cache_type_v: CacheType = "f16"
    """How values are stored; anything smaller than `f16` needs flash attention."""
    gpu_layers: Annotated[int, Field(ge=0, le=10_000)] | Literal["auto", "all"] = "auto"
    """How many of the model's layers the graphics card takes; `auto`: as many as fit."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """Threads that compute; not set: llama.cpp decides."""
    extra_args: Annotated[Texts, AfterValidator(_extra_args)] = ()
    """Further arguments for llama-server, each word on its own."""
    idle_s: float | None = Field(default=None, gt=0, le=31_536_000)
    """After how long without a request the server is stopped, to be started again by the next one; not set: never."""
    load_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    """How long a model may take to load."""
    drain_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    """How long a switch waits for answers that are being written; when it is over, nothing is switched."""

    @model_validator(mode="after")
    def _small_values_need_flash_attention(self) -> Self:
        if self.flash_attention == "off" and self.cache_type_v not in ("f32", "f16", "bf16"):
            raise ConfigProblem(
                f"cache_type_v {self.cache_type_v!r} needs flash attention",
                hint="Set flash_attention to 'on' or 'auto', or cache_type_v to 'f16'.",
            )
        return self


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
    adapter: Literal["none"] | AbsolutePath | None = None
    """A LoRA adapter for the embedded model, as an absolute path to a GGUF file. One that says which weights it was
    trained on is refused for any others. `none` or not set: the weights as they are."""
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
    reasoning: Literal["keep", "drop"] = "keep"
    """What happens to what the model thinks before it answers: `keep` logs it apart from the answer, `drop` forgets
    it."""
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
    keep_alive_s: int | None = Field(default=None, ge=-1, le=31_536_000)
    """How many seconds Ollama keeps the model loaded after its last use: 0 frees the memory at once, -1 keeps it for
    ever. Not set: as Ollama is set up, by default five minutes."""
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
        if self.adapter_file is not None and (self.base_url is not None or self.backend not in {"auto", "embedded"}):
            raise ConfigProblem("must not have `adapter`: only the embedded model takes one")
        if self.keep_alive_s is not None and (self.backend not in {"auto", "ollama"} or self.builder is not None):
            raise ConfigProblem("must not have `keep_alive_s`: only Ollama takes it")
        if self.strict_native and self.dialect in {"schema", "text"}:
            raise ConfigProblem("must not have both `strict_native` and another `dialect` than native")
        if self.backend == "managed":
            self._leave_to_managed_llama()
        return self

    @property
    def adapter_file(self) -> str | None:
        """The adapter to load; None: none."""
        return None if self.adapter in (None, "none") else str(self.adapter)

    def _name_a_whole_path(self, path: str) -> None:
        if not path.startswith(("/", "~")):  # a run may be resumed in another folder
            raise ConfigProblem("must name a GGUF file by its absolute path", hint="For example ~/models/some.gguf")

    def _leave_to_managed_llama(self) -> None:
        told = {"base_url": "model", "model": "model", "slots": "parallel", "context_window": "context_window"}
        for name, instead in told.items():
            if getattr(self, name) is not None:
                raise ConfigProblem(f"must not have `{name}`", hint=f"`managed_llama.{instead}` says it.")
