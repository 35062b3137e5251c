"""A llama-server that `fabric serve` starts, watches and switches."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, Strict, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import AbsolutePath, Settings, Text, Texts

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
