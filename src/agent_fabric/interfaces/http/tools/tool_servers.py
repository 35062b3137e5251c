"""Tool servers (MCP) that the server's runs use. What they may is agreed to at the server's own terminal only."""

from starlette.responses import Response

from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.schemas import ToolServerToInspect
from agent_fabric.wire.tool_servers import INSPECTED_TOOL_SERVER, TOOL_SERVERS

PATH = "/api/v1/tool-servers"


def add_tool_servers(routes: Routes, config: FabricConfig, local: LocalFabric) -> None:
    """Add the routes. They are for administrators: command lines may tell more than others should know."""

    @routes.get(PATH, Scope.ADMIN, "List tool servers", TOOL_SERVERS)
    async def list_servers() -> Response:
        """The same as `fabric mcp list --json`. Starts nothing."""
        from agent_fabric.interfaces.views import tools as views  # noqa: PLC0415 - most servers have none

        servers = local.tool_servers
        return json_answer({"servers": []} if servers is None else views.listed_object(config, servers))

    @routes.post(
        f"{PATH}/inspect", Scope.ADMIN, "See what a tool server offers", INSPECTED_TOOL_SERVER, fails=[404, 501, 502]
    )
    async def inspect(wish: ToolServerToInspect) -> Response:
        """The same as `fabric mcp inspect --json`: start or reach it, and show its tools. Trusts nothing."""
        from agent_fabric.interfaces.views import tools as views  # noqa: PLC0415 - as above

        known = views.tool_server_named(wish.name, config)
        servers = local.tool_servers
        assert servers is not None  # there is one, so they have been opened
        return json_answer(views.inspected_object(known, await servers.inspect(known.server)))
