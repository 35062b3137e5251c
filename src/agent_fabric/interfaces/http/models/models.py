"""The models at hand."""

import asyncio
import time
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from agent_fabric.application.ports.models import ManagedStatus, PulledModel
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.models import CacheType, ManagedLlamaConfig
from agent_fabric.domain.errors import ConfigError, ServerBusy
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer, json_bytes
from agent_fabric.interfaces.http.bodies import WHOLE, RequestBody, describe_problems
from agent_fabric.interfaces.http.errors import refusal
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.schemas import ProbeRequest, PullRequest
from agent_fabric.wire.json_codec import dump_json
from agent_fabric.wire.models import MODELS, PROBED_MODEL, PULLED_MODEL
from agent_fabric.wire.shape import Shape

FRESH_S = 1.0
"""Requests within this time get the same answer: looking around costs a dozen requests to Ollama."""


class _Look:
    """Looks around, once for all who ask at the same time."""

    def __init__(self, config: FabricConfig, local: LocalFabric) -> None:
        self._config, self._local = config, local
        self._lock = asyncio.Lock()
        self._answer = b""
        self._at = float("-inf")

    async def __call__(self) -> bytes:
        async with self._lock:
            if time.monotonic() - self._at > FRESH_S:
                from agent_fabric.bootstrap.models import listing  # noqa: PLC0415 - few servers are ever asked

                found = await listing(self._config, self._local.models.stack)()
                self._answer, self._at = dump_json(MODELS.dump(found)), time.monotonic()
            return self._answer


def add_models(routes: Routes, config: FabricConfig, local: LocalFabric) -> None:
    """Add the routes."""
    look = _Look(config, local)

    @routes.get("/models", Scope.RUNS_READ, "List the model of each key, and what else is at hand", MODELS)
    async def models() -> Response:
        """The same as `fabric models list --json`. Starts and downloads nothing, and asks no other machine."""
        return json_bytes(await look())

    _add_probe(routes, config, local)
    _add_pull(routes, config, local)


def _add_pull(routes: Routes, config: FabricConfig, local: LocalFabric) -> None:
    pulling = asyncio.Lock()

    @routes.post("/models/pull", Scope.ADMIN, "Download a model", PULLED_MODEL, fails=[404, 501, 502, 503, 504, 507])
    async def pull(wish: PullRequest) -> PulledModel | Response:
        """The answer takes its time; `GET /models` tells how much has come. It goes on if the client leaves."""
        if pulling.locked():
            raise ServerBusy("A model is being downloaded already", hint="Ask again when that is done.")
        async with pulling:
            from agent_fabric.bootstrap.models import ModelsHere  # noqa: PLC0415 - few servers are ever asked

            try:
                pulled = await ModelsHere(config, local.models.stack).pull(wish.name, lambda _: None)
            except ConfigError as problem:
                return refusal(404, problem.message, hint=problem.hint)
        return pulled


def _add_probe(routes: Routes, config: FabricConfig, local: LocalFabric) -> None:
    asking = asyncio.Lock()

    @routes.post(
        "/models/probe", Scope.ADMIN, "Ask a model a few small questions", PROBED_MODEL, fails=[404, 501, 502, 503, 504]
    )
    async def probe(wish: OptionalBody[ProbeRequest]) -> Response:
        """How it calls tools, its window, its speed; later runs use what was found. The answer takes its time."""
        if asking.locked():
            raise ServerBusy("A model is being probed already", hint="Ask again when that is done.")
        async with asking:
            from agent_fabric.bootstrap.models import ModelsHere  # noqa: PLC0415 - few servers are ever asked

            key = config.default_model_key if wish.key is None else wish.key
            probed = await ModelsHere(config, local.models.stack).probe_model(key, lambda _: None)
        return json_answer({**PROBED_MODEL.dump(probed), "key": key})


class ModelServerChange(RequestBody, example={"model": "/models/qwen2.5-7b-instruct-q4_k_m.gguf", "parallel": 2}):
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


PATH = "/models/server"


def add_model_server(routes: Routes, config: FabricConfig, local: LocalFabric) -> None:
    """Add the routes. Which program is started, only the configuration file says."""
    refusals, is_owned = [404, 413, 415, 502, 503], config.managed_llama is not None

    @routes.get(PATH, Scope.RUNS_READ, "Show our llama-server", MODEL_SERVER, fails=[404])
    async def show() -> Response:
        """Answer at once, also during a switch: its model, its options, and how busy it is."""
        managed = local.models.stack.managed if is_owned else None
        return _none() if managed is None else _answer(managed.status(), managed.llama.config)

    @routes.put(PATH, Scope.ADMIN, "Switch the model or the options of our llama-server", MODEL_SERVER, fails=refusals)
    async def switch(change: ModelServerChange) -> Response:
        """Wait for the answers that are being written, start llama-server anew, and return its state.

        New requests wait meanwhile, and none is lost. What the body does not name stays as it is. When the new model
        does not start, the old one is started again, and the problem says why. The configuration file stays as it is.
        """
        managed = local.models.stack.managed if is_owned else None
        if managed is None:
            return _none()
        try:
            await managed.switch(change.model_dump(exclude_unset=True))
        except ValidationError as problem:
            raise describe_problems(problem) from None
        return _answer(managed.status(), managed.llama.config)

    @routes.post(f"{PATH}/restart", Scope.ADMIN, "Restart the managed llama-server", MODEL_SERVER, fails=refusals)
    async def restart() -> Response:
        """Wait for the answers that are being written, and start llama-server as it was; also when it does not run."""
        managed = local.models.stack.managed if is_owned else None
        if managed is None:
            return _none()
        await managed.restart()
        return _answer(managed.status(), managed.llama.config)


def _none() -> Response:
    return refusal(
        404,
        "There is no llama-server that fabric owns",
        hint="Set `managed_llama.model` in the configuration to the absolute path of a GGUF file, and restart.",
    )


def _answer(status: ManagedStatus, config: ManagedLlamaConfig) -> Response:
    options = config.model_dump(mode="json")
    shown = {name: options[name] for name in ModelServerOptions._fields}
    return json_answer({**MODEL_SERVER.dump(status), "options": shown})
