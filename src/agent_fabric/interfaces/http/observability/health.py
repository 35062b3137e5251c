"""Whether the server works."""

from functools import partial

from fastapi import FastAPI, Request
from starlette.responses import Response

from agent_fabric import __version__
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.interfaces.http.locks import PUBLIC, needs
from agent_fabric.interfaces.http.openapi import gives
from agent_fabric.interfaces.http.plain_route import PlainRoute
from agent_fabric.wire.operations import HEALTH


def add_health(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the route that must always answer at once."""
    dispatch = fabric.dispatch
    facts = f'"version":"{__version__}","sandbox":"{fabric.sandbox_level}","policy_profile":"{fabric.policy_profile}"'
    head = f',{facts},"runs":{{"running":'

    async def health(_: Request) -> Response:
        """`ok` is false when runs could not be kept: the store was deleted or replaced."""
        ok, status = "true", 200
        try:
            fabric.require_store()
        except StoreUnavailable:
            ok, status = "false", 503
        text = f'{{"ok":{ok}{head}{dispatch.running},"queued":{dispatch.queued}}}}}'
        return Response(text, status, media_type="application/json")

    add = partial(
        app.router.add_api_route, "/health", health, route_class_override=PlainRoute, openapi_extra=needs(PUBLIC)
    )
    add(
        methods=["GET"],
        summary="Check that the server works",
        tags=["health"],
        response_model=None,
        responses={**gives(HEALTH), **gives(HEALTH, status=503, text="The store was deleted: restart the server.")},
    )
    add(methods=["HEAD"], include_in_schema=False)
