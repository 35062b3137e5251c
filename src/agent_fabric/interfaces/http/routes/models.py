"""The models at hand."""

import asyncio
import time

from fastapi import FastAPI
from starlette.responses import Response

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.infrastructure.persistence.codec import dump_json
from agent_fabric.interfaces.http.model_schemas import Models
from agent_fabric.interfaces.model_views import models_object

FRESH_S = 1.0
"""Whoever asks within this time gets the same answer: looking around costs a dozen requests to Ollama."""


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
                from agent_fabric.bootstrap.models_here import listing  # noqa: PLC0415 - few servers are ever asked

                found = await listing(self._fabric.config, self._fabric.local.models.stack)()
                self._answer, self._at = dump_json(models_object(found)), time.monotonic()
            return self._answer


def add_models(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the route."""
    look = _Look(fabric)

    @app.get(
        "/models",
        summary="Tell which model each key means today, and what else is at hand",
        response_model=Models,
        tags=["models"],
    )
    async def models() -> Response:
        """The same as `fabric models list --json`. Starts and downloads nothing, and asks no other machine."""
        return Response(await look(), media_type="application/json")
