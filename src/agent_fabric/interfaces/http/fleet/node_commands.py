"""What belongs to a command of a machine: its files and long outputs, chunk by chunk, its shell, its signatures."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query
from starlette.responses import Response

from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.application.fleet.show_commands import ShowCommands
from agent_fabric.application.fleet.sign_commands import Signature
from agent_fabric.bootstrap.fleet import Fleet
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.errors import InvalidInputs, NodeBlocked, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.node_tools import MAX_TRANSFER_BYTES, SHELL
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.domain.fleet.plans import Plan
from agent_fabric.domain.fleet.protocol import SHELL_READ_S, Method
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.fleet.node_schemas import (
    ChunkRequest,
    PrepareRequest,
    SignatureRequest,
    TypedRequest,
)
from agent_fabric.interfaces.http.fleet.nodes import ONE, ExecutionId, NodePath, find_command
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire import nodes as wire
from agent_fabric.wire.plans import PLAN

COMMANDS: Final = f"{ONE}/commands"
ONE_COMMAND: Final = f"{COMMANDS}/{{execution_id}}"
CHUNK_TIMEOUT_S: Final = 60.0
ANSWER_GRACE_S: Final = 15.0
ENDED_S: Final = 2.0
"""How long a shell that has ended takes to be settled here, and one that is asked for to be there."""
Offset = Annotated[int, Query(ge=0, le=MAX_TRANSFER_BYTES, description="Where the part begins.")]
_FAILS = [404, 409, 503]


def add_node_commands(routes: Routes, fleet: Fleet, runs: ServedRuns) -> None:
    """Add the routes."""
    one = routes.below(ONE_COMMAND)
    _add_files(one, fleet, ShowCommands(runs.find))
    _add_terminals(one, fleet)
    _add_signatures(routes, fleet, runs)


def _add_files(routes: Routes, fleet: Fleet, shown: ShowCommands) -> None:
    """Add the routes of files. What may be copied, the call that opened it has settled."""

    async def ask(
        by: Principal, which: str, execution_id: str, method: Method, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        node, command = await find_command(fleet, which, execution_id)
        await shown.require(command, by=by)
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
        found = wire.NodeChunk(int(told.get("offset", 0)), int(told.get("size", 0)), str(told.get("data", "")))
        return json_answer(wire.NODE_CHUNK.dump(found))

    @routes.get("/output", Scope.RUNS_READ, "Fetch a long output", wire.NODE_CHUNK, fails=_FAILS)
    async def output(
        node: NodePath,
        execution_id: ExecutionId,
        by: Principal,
        stream: Annotated[Literal["stdout", "stderr"], Query(description="Which output.")] = "stdout",
        offset: Offset = 0,
    ) -> Response:
        """A result holds beginning and end of a long output; the machine keeps all of it for a week."""
        return chunk(await ask(by, node, execution_id, Method.FETCH, {"stream": stream, "offset": offset}))

    @routes.get("/file", Scope.NODES, "Fetch a part of a file", wire.NODE_CHUNK, fails=_FAILS)
    async def read(node: NodePath, execution_id: ExecutionId, by: Principal, offset: Offset = 0) -> Response:
        """The file is the one that a call of `file_get` has opened; if it has changed since, it is refused."""
        return chunk(await ask(by, node, execution_id, Method.FILE_READ, {"offset": offset}))

    @routes.post("/file", Scope.NODES, "Send a part of a file", wire.NODE_UPLOAD, fails=_FAILS)
    async def write(wish: ChunkRequest, node: NodePath, execution_id: ExecutionId, by: Principal) -> wire.NodeUpload:
        """After the last part the machine checks size and SHA-256, and puts the file in its place in one step."""
        told = await ask(by, node, execution_id, Method.FILE_WRITE, {"offset": wish.offset, "data": wish.data})
        return wire.NodeUpload(int(told.get("offset", 0)), told.get("done") is True)


def _add_terminals(routes: Routes, fleet: Fleet) -> None:
    """Add the routes of shells: a person reads and types at a terminal whose session was approved."""

    @routes.get("/terminal", Scope.NODES, "Read from a shell", wire.NODE_TERMINAL, fails=_FAILS)
    async def read(
        by: Principal,
        node: NodePath,
        execution_id: ExecutionId,
        offset: Annotated[int, Query(ge=0, le=MAX_TRANSFER_BYTES, description="What was read before.")] = 0,
        wait_s: Annotated[
            float, Query(ge=0, le=SHELL_READ_S, allow_inf_nan=False, description="How long to wait for something.")
        ] = SHELL_READ_S,
    ) -> wire.NodeTerminal:
        """What it has printed since; empty: nothing. When `status` is settled and nothing comes, that was all."""
        machine, command = await _shell_of(fleet, by, node, execution_id)
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

    @routes.post("/terminal", Scope.NODES, "Type into a shell", wire.NODE_TERMINAL, fails=_FAILS)
    async def write(wish: TypedRequest, by: Principal, node: NodePath, execution_id: ExecutionId) -> wire.NodeTerminal:
        """Only who has asked for the shell may type. It ends by itself after 15 minutes without a key."""
        machine, command = await _shell_of(fleet, by, node, execution_id)
        if command.status is not CommandStatus.SENT:
            raise InvalidInputs(f"The shell is {command.status.value}")
        params = {"execution_id": execution_id, **wish.model_dump(exclude_none=True)}
        try:
            await fleet.hub.call(machine, Method.PTY_WRITE, params, timeout_s=ANSWER_GRACE_S)
        except RpcFailed as problem:
            raise InvalidInputs(f"{machine.name}: {problem.message}") from None
        return _describe(command, {}, 0)


async def _shell_of(fleet: Fleet, by: Principal, which: str, execution_id: str) -> tuple[Node, NodeCommand]:
    """Return a shell and its machine, for the person who has asked for it."""
    node, command = await fleet.operate.find(which), await fleet.hub.commands.find(execution_id)
    if command is None or command.agent_id != node.id or command.tool_name != SHELL:
        raise NodeNotFound(f"{node.name} has no shell {execution_id!r}", hint="Open one: fabric nodes shell NODE")
    if command.requested_by != by.name:
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


def _describe(command: NodeCommand, printed: Mapping[str, Any], offset: int) -> wire.NodeTerminal:
    result = command.result or {}
    code, error = result.get("exit_code"), result.get("error")
    return wire.NodeTerminal(
        command.status.value,
        offset,
        int(printed.get("size", offset)),
        str(printed.get("data", "")),
        code if isinstance(code, int) else None,
        str(error or ""),
    )


def _add_signatures(routes: Routes, fleet: Fleet, runs: ServedRuns) -> None:
    """Add the routes of approvers' signatures, for machines that do not trust their hub: of commands and plans."""

    @routes.post(COMMANDS, Scope.NODES, "Prepare a command", wire.COMMAND, fails=[*_FAILS, 507])
    async def prepare(wish: PrepareRequest, node: NodePath, by: Principal) -> NodeCommand:
        """The command that a run asks about is kept, so that approvers can sign it before they approve."""
        machine = await fleet.operate.find(node)
        card = await runs.approvals.find(wish.approval_id, viewer=Viewer.of(by))
        command = await fleet.tools.prepare(card)
        if command.agent_id != machine.id:
            raise NodeNotFound(f"The approval is not about {machine.name}", hint="See it: fabric approvals show ID")
        return command

    @routes.post(f"{ONE_COMMAND}/signatures", Scope.NODES, "Sign a command", wire.COMMAND, fails=[404, 409])
    async def sign_command(
        wish: SignatureRequest, node: NodePath, execution_id: ExecutionId, by: Principal
    ) -> NodeCommand:
        """Nodes that do not trust their hub want the signatures of approvers. They go with the command."""
        machine, found = await find_command(fleet, node, execution_id)
        signed = await fleet.sign.command(machine, found, Signature(wish.approver, wish.signature))
        [told] = await ShowCommands(runs.find)([signed], by=by)
        return told

    @routes.with_tag("fleet").post(
        "/api/v1/fleet/plans/{plan_id}/signatures", Scope.NODES, "Sign a plan", PLAN, fails=[404, 409]
    )
    async def sign_plan(wish: SignatureRequest, plan_id: Annotated[str, Path(max_length=64)]) -> Plan:
        """One signature is about all calls of the plan; each machine gets a proof that its own is among them."""
        return await fleet.sign.plan(plan_id, Signature(wish.approver, wish.signature))
