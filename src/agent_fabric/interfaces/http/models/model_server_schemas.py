"""The llama-server that fabric owns, as requests change it and answers show it."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from agent_fabric.config.schema.models import CacheType
from agent_fabric.infrastructure.models.servers.managed_llama import ManagedStatus
from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody
from agent_fabric.wire.shape import Shape


class ModelServerChange(
    RequestBody,
    json_schema_extra={"examples": [{"model": "/models/qwen2.5-7b-instruct-q4_k_m.gguf", "parallel": 2}]},
):
    """What to change about our llama-server; what is not named stays as it is."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | SkipJsonSchema[None] = None
    """The model's file on the server's machine, as an absolute path to a GGUF file."""
    parallel: Annotated[int, Field(ge=1, le=256), WHOLE] | SkipJsonSchema[None] = None
    """How many conversations are answered at once."""
    context_window: Annotated[int, Field(ge=256, le=10_000_000), WHOLE] | SkipJsonSchema[None] = None
    """Tokens that fit into each of these conversations."""
    flash_attention: Literal["on", "off", "auto"] | SkipJsonSchema[None] = None
    cache_type_k: CacheType | SkipJsonSchema[None] = None
    """How keys are stored; `q8_0` halves their memory at little cost."""
    cache_type_v: CacheType | SkipJsonSchema[None] = None
    """How values are stored; anything smaller than `f16` needs flash attention."""
    gpu_layers: Annotated[int, Field(ge=0, le=10_000), WHOLE] | Literal["auto", "all"] | SkipJsonSchema[None] = None
    """How many of the model's layers the graphics card takes."""
    threads: Annotated[int, Field(ge=1, le=1024), WHOLE] | None = None
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


class ModelServerOptions(NamedTuple):
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


MODEL_SERVER = Shape(
    ManagedStatus,
    name="ModelServer",
    about="Our llama-server as it is now.",
    also={"options": ModelServerOptions},
    examples=[
        {
            "stage": "ready",
            "model": "/models/qwen2.5-7b-instruct-q4_k_m.gguf",
            "running": 1,
            "waiting": 0,
            "pid": 4711,
            "slots": 2,
            "context_window": 8192,
            "memory_bytes": 5_368_709_120,
            "problem": "",
            "options": ModelServerOptions(2, 8192, "on", "q8_0", "q8_0", "auto", None, None, 600.0, 600.0)._asdict(),
        }
    ],
)
