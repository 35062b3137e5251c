"""Connects packs with tool servers: who may be started, what is offered, and how a call gets its answer."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.mcp import PinState, ServerReport
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ToolServerUnavailable
from agent_fabric.domain.policy.protected import PROTECTED_AT_TOP
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.sandbox.mounts_protected import ProtectedPaths
from agent_fabric.infrastructure.tools.mcp.connection import Connection, ConnectionLost
from agent_fabric.infrastructure.tools.mcp.pins import Checked, Pins
from agent_fabric.infrastructure.tools.mcp.pool import PooledServer, ServerPool
from agent_fabric.infrastructure.tools.mcp.tool_conversion import (
    MAX_TOOLS,
    ListedTool,
    ServerAnswer,
    answer_from,
    tool_name,
    tool_spec,
)

RECEIVED: Final = "received"
"""The folder of the workspace for images and files that servers send."""
_REPEATABLE: Final = frozenset((Effect.READS, Effect.IDEMPOTENT))
_FOR_PEOPLE: Final = frozenset({"answer_approval"})
"""Tools of agent-fabric itself that no run is offered."""
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What a person wants to know about a server."""

    protocol: str
    server_info: str
    start_s: float
    tools: tuple[ListedTool, ...]
    checked: Checked


async def connect_tools(
    pool: ServerPool, pins: Pins, server: MCPServerConfig, *, workspace: str, sandbox: Sandbox | None = None
) -> "ConnectedTools":
    """Return the tools of a server that a person has agreed to; see ToolServers."""
    protected = _protected_paths(server, workspace)
    if protected is not None:
        await asyncio.to_thread(list, protected.cover())  # what is there now may stay
    member = pool.member(server, workspace)
    connection = await member.acquire()
    try:
        listed = await connection.list_tools()
        checked = await asyncio.to_thread(pins.check, server, listed[:MAX_TOOLS])
    except BaseException:
        await member.release()
        raise
    offer = _offer(server, listed, checked, for_people=_FOR_PEOPLE if connection.is_ours else frozenset())
    report = ServerReport(
        server=server.name, protocol=connection.protocol, offered=tuple(offer.tools), hidden=offer.hidden
    )
    return ConnectedTools(server, member, connection, offer, report, sandbox, protected)


async def inspect_server(pool: ServerPool, pins: Pins, server: MCPServerConfig) -> Inspected:
    """Start a server and look at it, without pinning anything.

    Raises:
        FabricError: it cannot be used.
    """
    member = pool.member(server, pool.empty_workspace())
    connection = await member.acquire()
    try:
        listed = tuple(await connection.list_tools())[:MAX_TOOLS]
        return Inspected(
            protocol=connection.protocol,
            server_info=connection.server_info,
            start_s=connection.start_s,
            tools=listed,
            checked=await asyncio.to_thread(pins.look, server, listed),
        )
    finally:
        await member.release()


@dataclass(slots=True)
class _Offer:
    """The tools of a server that a model gets, by the name it knows, and those that it does not get."""

    tools: dict[str, tuple[ListedTool, ToolSpec]] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)


class ConnectedTools:
    """ServerTools of one server for one pack."""

    def __init__(
        self,
        server: MCPServerConfig,
        member: PooledServer,
        connection: Connection,
        offer: _Offer,
        report: ServerReport,
        sandbox: Sandbox | None,
        protected: ProtectedPaths | None,
    ) -> None:
        self._server = server
        self._protected = protected
        """Names in a workspace that the server may write, at which nothing new may stay."""
        self._member = member
        self._connection = connection
        self._offered = offer.tools
        self._sandbox = sandbox
        self._other_now: frozenset[str] = frozenset()
        """Tools that a restarted server describes in another way."""
        self._released = False
        self.report = report

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return [spec for _, spec in self._offered.values()]

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        listed, spec = self._offered[name]
        try:
            answer = answer_from(await self._send(listed, spec, args, context))
        finally:
            undone = await self._put_aside()
        output, wrote = await self._with_files(answer, context)
        if undone:
            output = {**output, "undone": [f"{name!r} is protected" for name in undone]}
        return ToolResult(output=output, wrote=wrote)

    async def release(self) -> None:
        """Give the connection back; a server that may write in the workspace is ended, so that it writes no more."""
        if not self._released:
            self._released = True
            await self._member.release(keep=self._protected is None)
            await self._put_aside()

    async def _put_aside(self) -> list[str]:
        return await asyncio.to_thread(self._protected.undo, has_ended=True) if self._protected else []

    async def _send(
        self, listed: ListedTool, spec: ToolSpec, args: Mapping[str, Any], context: ToolContext
    ) -> Mapping[str, Any]:
        connection = await self._alive_for(listed)
        try:
            return await connection.call(listed.name, args, timeout_s=context.timeout_s, run_id=context.run_id)
        except ConnectionLost as lost:
            if spec.effect not in _REPEATABLE:
                raise ToolServerUnavailable(
                    f"{lost.message}\nWhether the call happened is not known: check before you repeat it."
                ) from None
        connection = await self._alive_for(listed)
        return await connection.call(listed.name, args, timeout_s=context.timeout_s, run_id=context.run_id)

    async def _alive_for(self, listed: ListedTool) -> Connection:
        """Return a living connection to a server that still means the same by a tool."""
        connection = await self._member.connect()
        if connection is not self._connection:
            now = {tool.name: tool.digest for tool in await connection.list_tools()}
            offered = [tool for tool, _ in self._offered.values()]
            self._other_now = frozenset(tool.name for tool in offered if now.get(tool.name) != tool.digest)
            self._connection = connection
        if listed.name in self._other_now:
            raise ToolServerUnavailable(
                f"the tool server {self._server.name!r} was restarted, and {listed.name!r} has changed",
                hint=f"A person must look: fabric mcp trust {self._server.name}",
            )
        return connection

    async def _with_files(
        self, answer: ServerAnswer, context: ToolContext
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Put images and files into the workspace, and their paths into the output."""
        if self._sandbox is None or not any(each.data is not None for each in answer.attachments):
            return answer.output, ()
        described, wrote = [], []
        for number, each in enumerate(answer.attachments):
            entry = each.describe()
            if each.data is not None:
                call = _ODD.sub("_", context.call_id)[:60]
                path = f"{RECEIVED}/{self._server.name}/{call}-{number}{each.suffix}"
                try:
                    await self._sandbox.write_file(path, each.data)
                except OSError as problem:
                    entry["not_saved"] = str(problem)
                else:
                    entry["saved_as"] = path
                    wrote.append(path)
            described.append(entry)
        return {**answer.output, "attachments": described}, tuple(wrote)


def _protected_paths(server: MCPServerConfig, workspace: str) -> ProtectedPaths | None:
    writes = server.transport == "stdio" and server.workspace == "rw" and not server.trusted
    return ProtectedPaths(Path(workspace), PROTECTED_AT_TOP) if writes and workspace else None


def _offer(
    server: MCPServerConfig, listed: Sequence[ListedTool], checked: Checked, *, for_people: frozenset[str]
) -> _Offer:
    offer = _Offer()
    look = f"`fabric mcp trust {server.name}` shows it"
    for number, tool in enumerate(listed):
        if server.only_tools and tool.name not in server.only_tools:
            continue
        name = tool_name(server.name, tool.name)
        if tool.name in for_people:
            offer.hidden[tool.name] = "for people only: no run answers approvals"
        elif number >= MAX_TOOLS:
            offer.hidden[tool.name] = f"beyond the first {MAX_TOOLS}"
        elif checked.states[tool.name] is PinState.NEW:
            offer.hidden[tool.name] = f"new since the server was trusted ({look})"
        elif checked.states[tool.name] is PinState.CHANGED:
            offer.hidden[tool.name] = f"changed since the server was trusted ({look})"
        elif name in offer.tools:
            offer.hidden[tool.name] = f"named like another one ({name})"
        else:
            offer.tools[name] = (tool, tool_spec(server, tool))
    return offer
