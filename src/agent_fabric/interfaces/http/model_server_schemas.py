"""The shapes of bodies about the llama-server that fabric owns."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from agent_fabric.config.schema.managed_llama import CacheType

_IN = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, hide_input_in_errors=True)
_OUT = ConfigDict(use_attribute_docstrings=True)


def _whole(number: object) -> object:
    """Take 3.0 for 3, as JSON does."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class ModelServerChange(BaseModel):
    """What to change about our llama-server; what is not named stays as it is."""

    model_config = _IN | ConfigDict(
        json_schema_extra={"examples": [{"model": "/models/qwen2.5-7b-instruct-q4_k_m.gguf", "parallel": 2}]}
    )

    model: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | SkipJsonSchema[None] = None
    """The model's file on the server's machine, as an absolute path to a GGUF file."""
    parallel: Annotated[int, Field(ge=1, le=256), BeforeValidator(_whole)] | SkipJsonSchema[None] = None
    """How many conversations are answered at once."""
    context_window: Annotated[int, Field(ge=256, le=10_000_000), BeforeValidator(_whole)] | SkipJsonSchema[None] = None
    """Tokens that fit into each of these conversations."""
    flash_attention: Literal["on", "off", "auto"] | SkipJsonSchema[None] = None
    cache_type_k: CacheType | SkipJsonSchema[None] = None
    """How keys are stored; `q8_0` halves their memory at little cost."""
    cache_type_v: CacheType | SkipJsonSchema[None] = None
    """How values are stored; anything smaller than `f16` needs flash attention."""
    gpu_layers: (
        Annotated[int, Field(ge=0, le=10_000), BeforeValidator(_whole)] | Literal["auto", "all"] | SkipJsonSchema[None]
    ) = None
    """How many of the model's layers the graphics card takes."""
    threads: Annotated[int, Field(ge=1, le=1024), BeforeValidator(_whole)] | None = None
    """Threads that compute; null: llama.cpp decides."""

    @model_validator(mode="before")
    @classmethod
    def _no_programs(cls, body: object) -> object:
        for name in ("command", "extra_args"):
            if isinstance(body, dict) and name in body:
                raise PydanticCustomError(
                    "only_in_configuration",
                    "`{name}` is set in the configuration file only: over HTTP it would let a client run any program",
                    {"name": name},
                )
        return body


class ModelServerOptions(BaseModel):
    """How our llama-server is started, as `managed_llama` says it."""

    parallel: int
    context_window: int
    flash_attention: Literal["on", "off", "auto"]
    cache_type_k: CacheType
    cache_type_v: CacheType
    gpu_layers: int | Literal["auto", "all"]
    threads: int | None
    idle_s: float | None
    load_timeout_s: float
    drain_timeout_s: float


class ModelServer(BaseModel):
    """Our llama-server as it is now."""

    model_config = _OUT | ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "stage": "ready",
                    "model": "/models/qwen2.5-7b-instruct-q4_k_m.gguf",
                    "options": {
                        "parallel": 2,
                        "context_window": 8192,
                        "flash_attention": "on",
                        "cache_type_k": "q8_0",
                        "cache_type_v": "q8_0",
                        "gpu_layers": "auto",
                        "threads": None,
                        "idle_s": None,
                        "load_timeout_s": 600.0,
                        "drain_timeout_s": 600.0,
                    },
                    "pid": 4711,
                    "slots": 2,
                    "context_window": 8192,
                    "running": 1,
                    "waiting": 0,
                    "memory_bytes": 5_368_709_120,
                    "problem": "",
                }
            ]
        }
    )

    stage: Literal["stopped", "starting", "ready", "draining", "switching", "failed"]
    """`stopped`: the next request starts it. `draining`: a switch waits for answers that are being written."""
    model: str
    options: ModelServerOptions
    pid: int | None
    """Null: it does not run."""
    slots: int
    """How many requests it answers at once, as it says itself when it runs."""
    context_window: int
    """Tokens that fit into each, as it says itself when it runs."""
    running: int
    """Requests that are being answered."""
    waiting: int
    """Requests that wait for a slot, a start or a switch."""
    memory_bytes: int | None
    problem: str
    """Why the last start or switch failed; empty when all is well."""
