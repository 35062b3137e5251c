"""A command that a person wants on one machine or on many: judged, asked about, kept, sent and awaited."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from agent_fabric.application.fleet.ask_with_run import AskWithRun, Caller
from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand, blocked_by
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, InvalidInputs, NodeBlocked, NodeNotFound
from agent_fabric.domain.fleet.binding import timeout_of
from agent_fabric.domain.fleet.commands import DEFAULT_LIFETIME_S, CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node, NodeStatus, select_nodes
from agent_fabric.domain.fleet.plans import MAX_NODES
from agent_fabric.domain.fleet.served_tools import node_call
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.runs.task import RunResult

ANSWER_GRACE_S = 60.0
"""How much longer than its own time a command is waited for."""
LOOK_AGAIN_S = 2.0
"""How often results are looked for that other processes may have brought."""
MAX_ASKED = 50
"""So many approvals of one command may wait; for more machines there are plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrder:
    """A command that a person wants; `SERVER.tool` is a tool of an MCP server on the machine."""

    tool_name: str
    arguments: Mapping[str, Any]
    by: str
    lifetime_s: float = DEFAULT_LIFETIME_S
    queue: bool = False
    """Wait for machines that are not there."""
    dry_run: bool = False
    """Only say what the policies say."""

    @property
    def timeout_s(self) -> float:
        """How long the result is waited for."""
        return timeout_of(self.arguments) + ANSWER_GRACE_S

    def for_node(self, node: Node, prefix: str = "") -> CommandRequest:
        """Return what is wanted of one machine; the name of a served tool may begin with `prefix`."""
        tool_name, arguments = node_call(prefix, self.tool_name, self.arguments)
        return CommandRequest(
            node=node,
            tool_name=tool_name,
            arguments=arguments,
            by=self.by,
            lifetime_s=self.lifetime_s,
            queue=self.queue,
        )


class OrderOutcome(NamedTuple):
    """How an order stands on one machine."""

    request: CommandRequest
    ruling: Ruling | None
    """What the policies say; None: they were not asked."""
    problem: FabricError | None = None
    """Why it is not sent there."""
    command: NodeCommand | None = None
    """None: nothing was sent, nor is anyone asked."""
    approval_id: str = ""


@dataclass(frozen=True, slots=True)
class RunOnNodes:
    """Use case: decide about an order, ask a person where a policy wants it, send it, and wait for the results."""

    dispatch: DispatchCommand
    ask: AskWithRun

    async def on_one(self, which: str, order: NodeOrder, by: Caller) -> OrderOutcome:
        """Return how an order stands: settled, on its way, waiting for a person or, on a dry run, judged.

        Raises:
            NodeNotFound, NodeBlocked, NodeUnavailable, InvalidInputs: nothing is sent.
        """
        node = await self.dispatch.node(which)
        request = order.for_node(node, node.name)
        ruling = self.dispatch.judge(request)
        if order.dry_run:
            return self._dry_outcome(OrderOutcome(request, ruling))
        await self.dispatch.require_allowed(request, ruling)
        if ruling.verdict is Verdict.ASK:
            return await self._ask(OrderOutcome(request, ruling), by)
        command = self.dispatch.command(request, ruling, self.dispatch.status_at_once(node))
        if node.status is NodeStatus.ONLINE:
            command = await self.dispatch.run(command, timeout_s=order.timeout_s)
        else:
            await self.dispatch.send(command)
        return OrderOutcome(request, ruling, command=command)

    async def on_many(self, selector: str, order: NodeOrder, by: Caller) -> AsyncGenerator[OrderOutcome, None]:
        """Yield how an order stands on each machine, by name; then each again whose standing has changed.

        It ends when all machines have answered, or their time is over. Where a person has to agree, nothing is sent.

        Raises:
            NodeNotFound: no machine fits.
            InvalidInputs: the selector is none, or it means too many machines.
        """
        judged = {each.request.execution_id: each for each in await self.judge(selector, order)}
        asking = [each for each in judged.values() if each.problem is None and _asks(each)]
        if len(asking) > MAX_ASKED and not order.dry_run:
            raise InvalidInputs(
                f"A person would have to agree {len(asking):,} times",
                hint="Freeze one plan for all of them: fabric fleet plan SELECTOR -- COMMAND",
            )
        for each in judged.values():
            yield self._dry_outcome(each) if order.dry_run else each
        if order.dry_run:
            return
        for asked in await asyncio.gather(*(self._ask_or_say_why(each, by, n) for n, each in enumerate(asking))):
            yield asked
        async with aclosing(self.send(list(judged.values()), timeout_s=order.timeout_s)) as sent:
            async for command in sent:
                yield judged[command.execution_id]._replace(command=command)

    def _dry_outcome(self, outcome: OrderOutcome) -> OrderOutcome:
        """Return what a dry run tells: the command as it would be bound."""
        if outcome.ruling is None:
            return outcome
        command = self.dispatch.command(outcome.request, outcome.ruling, CommandStatus.WAITING)
        return outcome._replace(command=command, problem=None)

    async def _ask(self, outcome: OrderOutcome, by: Caller, attempt: int = 0) -> OrderOutcome:
        request = outcome.request
        call: Mapping[str, Any] = {
            "node": request.node.name,
            "tool_name": request.tool_name,
            "arguments": dict(request.arguments),
            "execution_id": request.execution_id,
        }
        assert outcome.ruling is not None
        run = await self.ask.about_command(call, by, attempt)
        command = self.dispatch.command(replace(request, run_id=run.run_id), outcome.ruling, CommandStatus.WAITING)
        await self.dispatch.commands.add(command)
        approval_id = "" if isinstance(run, RunResult) else await self.ask.approval_of(run.run_id)
        return outcome._replace(command=command, approval_id=approval_id)

    async def _ask_or_say_why(self, outcome: OrderOutcome, by: Caller, attempt: int) -> OrderOutcome:
        try:
            return await self._ask(outcome, by, attempt)
        except FabricError as problem:
            return outcome._replace(problem=problem)

    async def judge(self, selector: str, order: NodeOrder) -> list[OrderOutcome]:
        """Return what the policies say on each machine, by name.

        Raises:
            NodeNotFound: no machine fits.
            InvalidInputs: the selector is none, or it means too many machines.
        """
        nodes = select_nodes(selector, await self.dispatch.nodes.list())
        if not nodes:
            raise NodeNotFound(f"No machine fits {selector!r}", hint="See them with: fabric nodes list")
        if len(nodes) > MAX_NODES:
            raise InvalidInputs(f"A command goes to at most {MAX_NODES:,} machines at once")
        known: dict[Any, Ruling | FabricError] = {}
        return [self._judge(order.for_node(node), known) for node in nodes]

    def _judge(self, request: CommandRequest, known: dict[Any, Ruling | FabricError]) -> OrderOutcome:
        # Most machines of a fleet have the same policies, and then the same is said about the same command.
        node = request.node
        alike = (
            node.policy.version,
            node.roots,
            node.supported_tools,
            node.name if self.dispatch.hub_names_nodes else "",
        )
        said = known.get(alike)
        if said is None:
            try:
                said = self.dispatch.judge(request)
            except FabricError as problem:
                said = problem
            known[alike] = said
        if isinstance(said, FabricError):
            return OrderOutcome(request, None, said)
        if said.verdict is Verdict.BLOCK:
            return OrderOutcome(request, said, blocked_by(said))
        try:
            self.dispatch.require_usable(node, queue=request.queue)
        except FabricError as problem:
            return OrderOutcome(request, said, problem)
        return OrderOutcome(request, said)

    async def send(self, judged: Sequence[OrderOutcome], *, timeout_s: float) -> AsyncGenerator[NodeCommand, None]:
        """Send the command to machines that allow it, and yield each as it is settled.

        What is blocked is on record. After `timeout_s` the rest is yielded as it stands, and so is what waits for a
        machine that is not there.
        """
        new = [
            self.dispatch.command(each.request, each.ruling, self._status(each))
            for each in judged
            if each.ruling is not None and not _asks(each) and _is_recorded(each)
        ]
        away = {each.request.execution_id for each in judged if each.request.node.status is not NodeStatus.ONLINE}
        open_ = [each for each in new if not each.status.settled]
        left = {
            each.execution_id: _Awaited.of(self.dispatch.live, each) for each in open_ if each.execution_id not in away
        }
        try:
            await self.dispatch.send(*new)
            for command in open_:
                if command.execution_id in away:
                    yield command
            async for settled in self._settled_commands(left, timeout_s):
                yield settled
        finally:
            for each in left.values():
                each.leave.close()

    def _status(self, judged: OrderOutcome) -> CommandStatus:
        return self.dispatch.status_at_once(judged.request.node) if judged.problem is None else CommandStatus.BLOCKED

    async def _settled_commands(
        self, left: "dict[str, _Awaited]", timeout_s: float
    ) -> AsyncGenerator[NodeCommand, None]:
        """Yield commands as they are settled, and forget each: a thousand results are much to hold."""
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        until = loop.time() + timeout_s
        for each in left.values():
            each.future.add_done_callback(lambda _: came.set())
        while left:
            came.clear()
            for execution_id in [name for name, each in left.items() if each.future.done()]:
                yield left.pop(execution_id).take_result()
            patience_s = min(LOOK_AGAIN_S, until - loop.time())
            if not left or (patience_s > 0 and await _within(patience_s, came)):
                continue
            for execution_id in await self._to_look_at(left, is_over=patience_s <= 0):
                found = await self.dispatch.commands.find(execution_id)
                if found is not None and not found.status.settled and patience_s > 0:
                    continue
                left.pop(execution_id).leave.close()
                if found is not None:  # else someone has deleted it
                    yield found

    async def _to_look_at(self, left: "Mapping[str, _Awaited]", *, is_over: bool) -> Sequence[str]:
        """Return those that others may have settled: one query tells which are still open, however many there are."""
        if is_over:
            return list(left)
        open_ = {each.execution_id for each in await self.dispatch.commands.list(open_only=True, limit=MAX_NODES)}
        return [execution_id for execution_id in left if execution_id not in open_]


class _Awaited(NamedTuple):
    """A command that was sent."""

    future: "asyncio.Future[NodeCommand]"
    leave: ExitStack
    """Ends the waiting."""

    @classmethod
    def of(cls, live: LiveNodes, command: NodeCommand) -> "_Awaited":
        leave = ExitStack()
        return cls(leave.enter_context(live.awaiting(command.execution_id)), leave)

    def take_result(self) -> NodeCommand:
        self.leave.close()
        return self.future.result()


async def _within(patience_s: float, came: asyncio.Event) -> bool:
    """Tell whether something has come in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await came.wait()
    return came.is_set()


def _is_recorded(judged: OrderOutcome) -> bool:
    return judged.problem is None or isinstance(judged.problem, NodeBlocked)


def _asks(judged: OrderOutcome) -> bool:
    return judged.ruling is not None and judged.ruling.verdict is Verdict.ASK
