"""The models at hand."""

import asyncio
import time

from starlette.responses import Response

from agent_fabric.application.ports.models import PulledModel
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import ConfigError, ServerBusy
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer, json_bytes
from agent_fabric.interfaces.http.errors import refusal
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.interfaces.http.schemas import ProbeRequest, PullRequest
from agent_fabric.wire.json_codec import dump_json
from agent_fabric.wire.models import MODELS, PROBED_MODEL, PULLED_MODEL

FRESH_S = 1.0
"""Requests within this time get the same answer: looking around costs a dozen requests to Ollama."""


class _Look:
    """Looks around, once for all who ask at the same time."""

    def __init__(self, fabric: ServerFabric) -> None:
        self._fabric = fabric
        self._lock = asyncio.Lock()
        self._answer = b""
        self._at = float("-inf")

    async def __call__(self) -> bytes:
        async with self._lock:
            if time.monotonic() - self._at > FRESH_S:
                from agent_fabric.bootstrap.models import listing  # noqa: PLC0415 - few servers are ever asked

                found = await listing(self._fabric.config, self._fabric.models.stack)()
                self._answer, self._at = dump_json(MODELS.dump(found)), time.monotonic()
            return self._answer


def add_models(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes."""
    look = _Look(fabric)

    @routes.get("/models", Scope.RUNS_READ, "List the model of each key, and what else is at hand", MODELS)
    async def models() -> Response:
        """The same as `fabric models list --json`. Starts and downloads nothing, and asks no other machine."""
        return json_bytes(await look())

    _add_probe(routes, fabric)
    _add_pull(routes, fabric)


def _add_pull(routes: Routes, fabric: ServerFabric) -> None:
    pulling = asyncio.Lock()

    @routes.post("/models/pull", Scope.ADMIN, "Download a model", PULLED_MODEL, fails=[404, 501, 502, 503, 504, 507])
    async def pull(wish: PullRequest) -> PulledModel | Response:
        """The answer takes its time; `GET /models` tells how much has come. It goes on if the client leaves."""
        if pulling.locked():
            raise ServerBusy("A model is being downloaded already", hint="Ask again when that is done.")
        async with pulling:
            from agent_fabric.bootstrap.models import ModelsHere  # noqa: PLC0415 - few servers are ever asked

            try:
                pulled = await ModelsHere(fabric.config, fabric.models.stack).pull(wish.name, lambda _: None)
            except ConfigError as problem:
                return refusal(404, problem.message, hint=problem.hint)
        return pulled


def _add_probe(routes: Routes, fabric: ServerFabric) -> None:
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

            key = fabric.config.default_model_key if wish.key is None else wish.key
            probed = await ModelsHere(fabric.config, fabric.models.stack).probe_model(key, lambda _: None)
        return json_answer({**PROBED_MODEL.dump(probed), "key": key})
