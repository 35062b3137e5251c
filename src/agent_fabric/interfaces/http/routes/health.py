"""Whether the server works."""

from fastapi import FastAPI
from starlette.responses import Response

from agent_fabric import __version__
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.interfaces.http.schemas import Health


def add_health(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the route that must always answer at once."""
    dispatch = fabric.dispatch
    head = f'{{"ok":true,"version":"{__version__}","sandbox":"{fabric.sandbox_level}","runs":{{"running":'

    @app.get("/health", summary="Tell that the server works", tags=["health"], response_model=Health)
    async def health() -> Response:
        """`ok` is always true: a server that does not work does not answer."""
        text = f'{head}{dispatch.running},"queued":{dispatch.queued}}}}}'
        return Response(text, media_type="application/json")
