"""Shells on nodes: a person reads and types at a terminal whose session was approved."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request

from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.bootstrap.fleet import Fleet
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import InvalidInputs, NodeBlocked, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.node_tools import MAX_TRANSFER_BYTES, SHELL
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.domain.fleet.protocol import SHELL_READ_S, Method
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.fleet.node_schemas import TypedRequest
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.nodes import NODE_TERMINAL, NodeTerminal

TERMINAL: Final = "/api/v1/nodes/{node}/commands/{execution_id}/terminal"
ANSWER_GRACE_S: Final = 15.0
ENDED_S: Final = 2.0
"""How long a shell that has ended takes to be settled here, and one that is asked for to be there."""
NodePath = Annotated[str, Path(description="The id or the name of a node.", max_length=64)]
ExecutionId = Annotated[str, Path(max_length=64)]


def add_node_terminals(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes."""
    fleet = fabric.fleet
    fails = [404, 409, 503]

    @routes.get(TERMINAL, Scope.NODES, "Read from a shell", NODE_TERMINAL, fails=fails)
    async def read(
        request: Request,
        node: NodePath,
        execution_id: ExecutionId,
        offset: Annotated[int, Query(ge=0, le=MAX_TRANSFER_BYTES, description="What was read before.")] = 0,
        wait_s: Annotated[
            float, Query(ge=0, le=SHELL_READ_S, allow_inf_nan=False, description="How long to wait for something.")
        ] = SHELL_READ_S,
    ) -> NodeTerminal:
        """What it has printed since; empty: nothing. When `status` is settled and nothing comes, that was all."""
        machine, command = await _shell_of(fleet, request, node, execution_id)
        printed: Mapping[str, Any] | None = None
        if command.status is CommandStatus.SENT:
            asked = {"execution_id": execution_id, "offset": offset, "wait_s": wait_s}
            printed = await _ask(fleet, machine, Method.PTY_READ, asked, wait_s)
        if printed is None:
            command = await fleet.dispatch.outcome(execution_id, timeout_s=min(wait_s, ENDED_S))
        if printed is None and command.status.settled:
            asked = {"execution_id": execution_id, "offset": offset, "stream": "stdout"}
            printed = await _ask(fleet, machine, Method.FETCH, asked, 0.0)
        return _describe(command, printed or {}, offset)

    @routes.post(TERMINAL, Scope.NODES, "Type into a shell", NODE_TERMINAL, fails=fails)
    async def write(wish: TypedRequest, request: Request, node: NodePath, execution_id: ExecutionId) -> NodeTerminal:
        """Only who has asked for the shell may type. It ends by itself after 15 minutes without a key."""
        machine, command = await _shell_of(fleet, request, node, execution_id)
        if command.status is not CommandStatus.SENT:
            raise InvalidInputs(f"The shell is {command.status.value}")
        params = {"execution_id": execution_id, **wish.model_dump(exclude_none=True)}
        try:
            await fleet.hub.call(machine, Method.PTY_WRITE, params, timeout_s=ANSWER_GRACE_S)
        except RpcFailed as problem:
            raise InvalidInputs(f"{machine.name}: {problem.message}") from None
        return _describe(command, {}, 0)


async def _shell_of(fleet: Fleet, request: Request, which: str, execution_id: str) -> tuple[Node, NodeCommand]:
    """Return a shell and its machine, for the person who has asked for it."""
    node, command = await fleet.operate.find(which), await fleet.hub.commands.find(execution_id)
    if command is None or command.agent_id != node.id or command.tool_name != SHELL:
        raise NodeNotFound(f"{node.name} has no shell {execution_id!r}", hint="Open one: fabric nodes shell NODE")
    if command.requested_by != who_asks(request).name:
        raise NodeBlocked("The shell belongs to someone else", hint="Open one of your own: fabric nodes shell NODE")
    return node, command


async def _ask(
    fleet: Fleet, node: Node, method: Method, params: Mapping[str, Any], wait_s: float
) -> Mapping[str, Any] | None:
    """Return what the node answers; None: it has no such shell or record, or is not there."""
    try:
        told = await fleet.hub.call(node, method, params, timeout_s=wait_s + ANSWER_GRACE_S)
    except (RpcFailed, NodeUnavailable):
        return None
    return told if isinstance(told, Mapping) else None


def _describe(command: NodeCommand, printed: Mapping[str, Any], offset: int) -> NodeTerminal:
    result = command.result or {}
    code, error = result.get("exit_code"), result.get("error")
    return NodeTerminal(
        command.status.value,
        offset,
        int(printed.get("size", offset)),
        str(printed.get("data", "")),
        code if isinstance(code, int) else None,
        str(error or ""),
    )
