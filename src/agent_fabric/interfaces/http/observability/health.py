"""Whether the server works."""

from starlette.responses import Response

from agent_fabric import __version__
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.routing import Open, Routes
from agent_fabric.wire.operations import HEALTH


def add_health(routes: Routes, fabric: ServerFabric) -> None:
    """Add the route that must always answer at once."""
    dispatch = fabric.dispatch
    facts = f'"version":"{__version__}","sandbox":"{fabric.sandbox_level}","policy_profile":"{fabric.policy_profile}"'
    head = f',{facts},"runs":{{"running":'

    failing = gives(HEALTH, status=503, text="The store was deleted: restart the server.")

    @routes.get("/health", Open.PUBLIC, "Check that the server works", HEALTH, also=failing, head=True)
    async def health() -> Response:
        """`ok` is false when runs could not be kept: the store was deleted or replaced."""
        ok, status = "true", 200
        try:
            fabric.require_store()
        except StoreUnavailable:
            ok, status = "false", 503
        text = f'{{"ok":{ok}{head}{dispatch.running},"queued":{dispatch.queued}}}}}'
        return Response(text, status, media_type="application/json")
