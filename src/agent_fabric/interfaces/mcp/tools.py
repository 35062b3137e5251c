"""What agent-fabric offers to programs that speak MCP: start a task, follow it, find earlier ones, answer a question.

Every tool is a few requests to a server, made for its caller and with their credentials: so scopes, limits and
logs are the same as for everyone else, and there is no second way into runs.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, Tool, ToolAnnotations
from pydantic import Field

from agent_fabric import __version__
from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.client.tasks import TaskRequest
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.events import Event, ToolCalled, ToolReturned
from agent_fabric.domain.identity.principals import RUN_META
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import MAX_COST
from agent_fabric.domain.runs.effects import warning
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.wire.approvals import APPROVAL, APPROVALS
from agent_fabric.wire.results import EFFECTS, PROOF

ANSWERS = "answer_approval"
"""The tool that no run is offered."""
WAIT_S = 50.0
"""Many clients give up on a call after a minute; the run goes on."""
LEAST_S = 0.1
"""Enough to see what is there already."""
INSTRUCTIONS = """\
agent-fabric runs tasks durably. run_task starts one and waits a while; if it has not ended by then, call follow_run \
with its run_id until `status` is completed, failed or cancelled. `waiting` means that a person has to answer: see \
list_approvals. Never answer an approval unless the person you work for told you to."""

Connect = Callable[["Context[Any, Any]"], AbstractAsyncContextManager[FabricClient]]
"""Gives the server's client for the caller."""
RunName = Annotated[str, Field(description="The run's id, or how it begins.")]
Wait = Annotated[float, Field(ge=0, le=600, description="How many seconds to wait for news.")]


def announced_run(context: "Context[Any, Any]") -> str:
    """Return the run that makes a call, as the tool-server client of agent-fabric names it; empty: none."""
    meta = context.request_context.meta
    named = None if meta is None else meta.get(RUN_META)
    return str(named) if named else ""


class _StrictServer(MCPServer[Any]):
    """An MCP server whose tools refuse arguments that they do not know, such as a misspelt one."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: "Context[Any, Any] | None" = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: it has no such argument.
        """
        known = next((tool.input_schema["properties"] for tool in await self.list_tools() if tool.name == name), None)
        if known is not None and (unknown := sorted(arguments.keys() - known.keys())):
            takes = ", ".join(known) or "nothing"
            raise ToolError(f"{name} has no argument {', '.join(map(repr, unknown))}. It takes: {takes}")
        return await super().call_tool(name, arguments, context)

    async def list_tools(self) -> list[Tool]:
        """List the tools; their schemas say that there are no other arguments."""
        tools = await super().list_tools()
        return [
            tool.model_copy(update={"input_schema": {**tool.input_schema, "additionalProperties": False}})
            for tool in tools
        ]


def fabric_tools(connect: Connect, *, answering: Connect | None = None) -> MCPServer[Any]:
    """Return the MCP server. `answering` gives the client for answers to approvals; None: there is no such tool."""
    server: MCPServer[Any] = _StrictServer(
        "agent-fabric", title="agent-fabric", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    _add_starting(server, connect)
    _add_looking(server, connect)
    _add_approvals(server, connect)
    if answering is not None:
        _add_answering(server, answering)
    return server


def _add_starting(server: "MCPServer[Any]", connect: Connect) -> None:
    @server.tool(annotations=ToolAnnotations(title="Run a task", destructive_hint=True, open_world_hint=True))
    async def run_task(
        context: "Context[Any, Any]",
        task: Annotated[str, Field(description="What to do, in plain words.", min_length=1)],
        pack: Annotated[str | None, Field(description="The specialist; by default one is chosen.")] = None,
        max_steps: Annotated[int | None, Field(ge=1, le=1000, description="Most model answers.")] = None,
        require_proof: Annotated[bool, Field(description="Whether to fail where nothing proves the result.")] = False,
        max_cost: Annotated[float | None, Field(gt=0, le=MAX_COST, description="What models may cost.")] = None,
        wait_s: Wait = WAIT_S,
    ) -> dict[str, Any]:
        """Do a task. It is recorded, goes on if you leave, and survives a crash."""
        async with _explain_errors(connect, context) as fabric:
            wish = TaskRequest(
                prompt=task, pack=pack, max_steps=max_steps, require_proof=require_proof, max_cost=max_cost
            )
            run_id = await fabric.runs.start(wish)
            return await _follow(context, fabric, run_id, after=-1, wait_s=wait_s, with_events=False)

    @server.tool(annotations=ToolAnnotations(title="Cancel a run", destructive_hint=True, idempotent_hint=True))
    async def cancel_run(context: "Context[Any, Any]", run_id: RunName, reason: str = "") -> dict[str, Any]:
        """End a run. What it has done stays."""
        async with _explain_errors(connect, context) as fabric:
            return outcome_object(await fabric.runs.cancel(run_id, reason=reason))


def _add_looking(server: "MCPServer[Any]", connect: Connect) -> None:
    @server.tool(annotations=ToolAnnotations(title="Follow a run", read_only_hint=True))
    async def follow_run(
        context: "Context[Any, Any]",
        run_id: RunName,
        after: Annotated[int, Field(ge=-1, description="`next` of the answer before; -1 begins at the start.")] = -1,
        wait_s: Wait = WAIT_S,
    ) -> dict[str, Any]:
        """Tell what has happened in a run since, and its result once it has ended."""
        async with _explain_errors(connect, context) as fabric:
            found = await fabric.runs.find(run_id)
            return await _follow(context, fabric, found, after=after, wait_s=wait_s, with_events=True)

    @server.tool(annotations=ToolAnnotations(title="Search runs", read_only_hint=True))
    async def search_runs(
        context: "Context[Any, Any]",
        words: Annotated[str, Field(description="Words of a task or its result; empty lists the newest runs.")] = "",
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> dict[str, Any]:
        """Find earlier runs by words of their task or result."""
        async with _explain_errors(connect, context) as fabric:
            runs = fabric.runs
            found = await (runs.search(words, limit=limit) if words.strip() else runs.list(limit=limit))
            return {"runs": [run_line(record) for record in found]}


def _add_approvals(server: "MCPServer[Any]", connect: Connect) -> None:
    @server.tool(annotations=ToolAnnotations(title="List approvals", read_only_hint=True))
    async def list_approvals(context: "Context[Any, Any]", run_id: str = "") -> dict[str, Any]:
        """List what runs ask a person before they go on."""
        async with _explain_errors(connect, context) as fabric:
            cards = await fabric.approvals.list(run_id=run_id)
            return APPROVALS.dump(cards)


def _add_answering(server: "MCPServer[Any]", connect: Connect) -> None:
    @server.tool(name=ANSWERS, annotations=ToolAnnotations(title="Answer an approval", destructive_hint=True))
    async def answer_approval(
        context: "Context[Any, Any]",
        approval_id: Annotated[str, Field(description="The approval's id, or how it begins.")],
        decision: Literal["approve", "deny"],
        reason: str = "",
        binding: Annotated[str, Field(description="That of the approval as the person was shown it, whole.")] = "",
    ) -> dict[str, Any]:
        """Answer a question of a run, because a person said so. The first answer counts; the run then goes on."""
        async with _explain_errors(connect, context) as fabric:
            card = await fabric.approvals.answer(approval_id, Decision(decision), reason=reason, binding=binding)
            return APPROVAL.dump(card)


async def _follow(
    context: "Context[Any, Any]", fabric: FabricClient, run_id: RunId, *, after: int, wait_s: float, with_events: bool
) -> dict[str, Any]:
    """Watch a run until it has ended, waits for someone, or time is up; tell how it stands."""
    seen: list[Event] = []
    try:
        async with asyncio.timeout(max(wait_s, LEAST_S)):
            async for each in fabric.runs.follow(run_id, after=after):
                if isinstance(each, RunResult):
                    break
                if isinstance(each, Event):
                    seen.append(each)
                    await context.report_progress(each.seq, None, event_words(each))
                    if each.body.kind == "run_waiting" and await fabric.approvals.list(run_id=run_id):
                        break  # for a person, not for a time
    except TimeoutError:
        pass  # it goes on without us
    shown = outcome_object((await fabric.runs.show(run_id)).result)
    if with_events:
        shown |= {"events": [event_object(event) for event in seen], "next": seen[-1].seq if seen else after}
    return shown


@asynccontextmanager
async def _explain_errors(connect: Connect, context: "Context[Any, Any]") -> AsyncIterator[FabricClient]:
    """Let the caller of a tool know what went wrong and what to do about it."""
    try:
        async with connect(context) as fabric:
            yield fabric
    except FabricError as problem:
        raise ToolError(f"{problem.message}. {problem.hint}" if problem.hint else problem.message) from None


MAX_CHARS = 2_000
"""Longer texts of events are cut: `fabric logs show` has them whole."""


def outcome_object(result: RunResult) -> dict[str, Any]:
    """Return how a run stands, and what came of it as far as it has ended."""
    told = warning(result.effects, result.outcome) if result.status is RunStatus.COMPLETED else ""
    shown: dict[str, Any] = {
        **({"warning": told} if told else {}),  # first: what is read first is believed
        "run_id": result.run_id,
        "status": result.status.value,
        "result": dict(result.payload),
        "workspace": result.workspace,
    }
    if result.status is RunStatus.COMPLETED:
        shown["proof"] = PROOF.dump(result.proof)
        shown["outcome"] = result.outcome
    if result.effects:
        shown["effects"] = EFFECTS.dump(result.effects)
    if result.error is not None:
        shown["error"] = {"code": result.error.code, "message": result.error.message, "hint": result.error.hint}
    if result.waiting_for:
        shown["approvals"] = list(result.waiting_for)
    return shown


def run_line(record: RunRecord) -> dict[str, Any]:
    """Return one line about a run."""
    return {
        "run_id": record.run_id,
        "status": record.status.value,
        "created_at": record.created_at,
        "task": _short(record.prompt),
        "summary": _short(record.summary),
    }


def event_words(event: Event) -> str:
    """Return an event in a few words, for a line that shows progress."""
    return f"{event.body.kind}: {event.body.tool}" if isinstance(event.body, ToolCalled) else event.body.kind


def event_object(event: Event) -> dict[str, Any]:
    """Return an event as one who follows a run needs it."""
    shown: dict[str, Any] = {"seq": event.seq, "kind": event.body.kind}
    if isinstance(event.body, ToolCalled):
        shown |= {"tool": event.body.tool, "args": _short(str(dict(event.body.args)))}
    elif isinstance(event.body, ToolReturned):
        shown |= {"tool": event.body.tool, "result": _short(str(event.body.result))}
    return shown


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"


async def tools_over_stdio(url: str, token: str | None, *, may_answer: bool, run: str) -> None:
    """Serve until standard input ends. Without a token, the one is used that the command line would use.

    `run` is the run that this process works for; empty: none, as far as its process tells.
    """

    def connect(context: "Context[Any, Any]") -> FabricClient:
        return FabricClient(url, token=token, run=announced_run(context) or run)

    await fabric_tools(connect, answering=connect if may_answer else None).run_stdio_async()
