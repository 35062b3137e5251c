"""Files of nodes and long outputs, chunk by chunk. What may be copied, the call that opened it has settled."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request
from starlette.responses import Response

from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.application.fleet.show_commands import ShowCommands
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import InvalidInputs, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.node_tools import MAX_TRANSFER_BYTES
from agent_fabric.domain.fleet.protocol import Method
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.fleet.node_schemas import ChunkRequest
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.nodes import NODE_CHUNK, NODE_UPLOAD, NodeChunk, NodeUpload

COMMAND: Final = "/api/v1/nodes/{node}/commands/{execution_id}"
CHUNK_TIMEOUT_S: Final = 60.0
NodePath = Annotated[str, Path(description="The id or the name of a node.", max_length=64)]
ExecutionId = Annotated[str, Path(max_length=64)]
Offset = Annotated[int, Query(ge=0, le=MAX_TRANSFER_BYTES, description="Where the part begins.")]


def add_node_files(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes."""
    fleet = fabric.fleet
    fails = [404, 409, 503]

    shown = ShowCommands(fabric.find)

    async def ask(
        request: Request, which: str, execution_id: str, method: Method, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        node, command = await fleet.operate.find(which), await fleet.hub.commands.find(execution_id)
        if command is None or command.agent_id != node.id:
            raise NodeNotFound(f"{node.name} has no command {execution_id!r}", hint="See them with: fabric nodes queue")
        await shown.require(command, by=who_asks(request))
        try:
            told = await fleet.hub.call(
                node, method, {**params, "execution_id": execution_id}, timeout_s=CHUNK_TIMEOUT_S
            )
        except RpcFailed as problem:
            raise InvalidInputs(f"{node.name}: {problem.message}") from None
        if not isinstance(told, Mapping):
            raise NodeUnavailable(f"{node.name} does not answer as it should")
        return told

    def chunk(told: Mapping[str, Any]) -> Response:
        found = NodeChunk(int(told.get("offset", 0)), int(told.get("size", 0)), str(told.get("data", "")))
        return json_answer(NODE_CHUNK.dump(found))

    @routes.get(f"{COMMAND}/output", Scope.RUNS_READ, "Fetch a long output", NODE_CHUNK, fails=fails)
    async def output(
        node: NodePath,
        execution_id: ExecutionId,
        request: Request,
        stream: Annotated[Literal["stdout", "stderr"], Query(description="Which output.")] = "stdout",
        offset: Offset = 0,
    ) -> Response:
        """A result holds beginning and end of a long output; the machine keeps all of it for a week."""
        return chunk(await ask(request, node, execution_id, Method.FETCH, {"stream": stream, "offset": offset}))

    @routes.get(f"{COMMAND}/file", Scope.NODES, "Fetch a part of a file", NODE_CHUNK, fails=fails)
    async def read(node: NodePath, execution_id: ExecutionId, request: Request, offset: Offset = 0) -> Response:
        """The file is the one that a call of `file_get` has opened; if it has changed since, it is refused."""
        return chunk(await ask(request, node, execution_id, Method.FILE_READ, {"offset": offset}))

    @routes.post(f"{COMMAND}/file", Scope.NODES, "Send a part of a file", NODE_UPLOAD, fails=fails)
    async def write(wish: ChunkRequest, node: NodePath, execution_id: ExecutionId, request: Request) -> NodeUpload:
        """After the last part the machine checks size and SHA-256, and puts the file in its place in one step."""
        told = await ask(request, node, execution_id, Method.FILE_WRITE, {"offset": wish.offset, "data": wish.data})
        return NodeUpload(int(told.get("offset", 0)), told.get("done") is True)
