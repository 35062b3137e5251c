"""One command on many machines at once: judged for each, kept in one transaction, sent to all, awaited together."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent_fabric.application.fleet.dispatch_command import DispatchCommand, Wish, blocked_by
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.domain.errors import FabricError, InvalidInputs, NodeBlocked, NodeNotFound
from agent_fabric.domain.fleet.commands import DEFAULT_LIFETIME_S, CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node, NodeStatus
from agent_fabric.domain.fleet.plans import MAX_NODES
from agent_fabric.domain.fleet.selectors import SelectorProblem, select_nodes
from agent_fabric.domain.policy.verdicts import Ruling, Verdict

LOOK_AGAIN_S = 2.0
"""How often results are looked for that other processes may have brought."""
MAX_ASKED = 50
"""So many approvals of one command may wait; whoever wants more machines to do it freezes one plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutWish:
    """A command that somebody wants on many machines."""

    selector: str
    tool_name: str
    arguments: Mapping[str, Any]
    by: str
    lifetime_s: float = DEFAULT_LIFETIME_S
    queue: bool = False
    """Wait for machines that are not there."""


class JudgedWish(NamedTuple):
    """What the policies say about the command on one machine."""

    wish: Wish
    ruling: Ruling | None
    problem: FabricError | None = None
    """Why it is not sent there."""


@dataclass(frozen=True, slots=True)
class FanOutCommand:
    """Use case: decide for all machines, then send to those where nobody has to be asked."""

    dispatch: DispatchCommand

    async def judge(self, wanted: FanOutWish) -> list[JudgedWish]:
        """Return what the policies say on each machine, by name.

        Raises:
            NodeNotFound: no machine fits.
            InvalidInputs: the selector is none, or it means too many machines.
        """
        try:
            nodes = select_nodes(wanted.selector, await self.dispatch.nodes.list())
        except SelectorProblem as problem:
            raise InvalidInputs(str(problem)) from None
        if not nodes:
            raise NodeNotFound(f"No machine fits {wanted.selector!r}", hint="See them with: fabric nodes list")
        if len(nodes) > MAX_NODES:
            raise InvalidInputs(f"A command goes to at most {MAX_NODES:,} machines at once")
        known: dict[Any, Ruling | FabricError] = {}
        return [self._judge(wanted, node, known) for node in nodes]

    def _judge(self, wanted: FanOutWish, node: Node, known: dict[Any, Ruling | FabricError]) -> JudgedWish:
        wish = Wish(
            node=node,
            tool_name=wanted.tool_name,
            arguments=wanted.arguments,
            by=wanted.by,
            lifetime_s=wanted.lifetime_s,
            queue=wanted.queue,
        )
        # Most machines of a fleet have the same policies, and then the same is said about the same command.
        alike = (
            node.policy.version,
            node.roots,
            node.supported_tools,
            node.name if self.dispatch.hub_names_nodes else "",
        )
        said = known.get(alike)
        if said is None:
            try:
                said = self.dispatch.judge(wish)
            except FabricError as problem:
                said = problem
            known[alike] = said
        if isinstance(said, FabricError):
            return JudgedWish(wish, None, said)
        if said.verdict is Verdict.BLOCK:
            return JudgedWish(wish, said, blocked_by(said))
        try:
            self.dispatch.require_usable(node, queue=wanted.queue)
        except FabricError as problem:
            return JudgedWish(wish, said, problem)
        return JudgedWish(wish, said)

    async def send(self, judged: Sequence[JudgedWish], *, timeout_s: float) -> AsyncGenerator[NodeCommand, None]:
        """Send the command to machines that allow it, and yield each as it is settled.

        What is blocked is on record. After `timeout_s` the rest is yielded as it stands, and so is what waits for a
        machine that is not there.
        """
        new = [
            self.dispatch.command(each.wish, each.ruling, self._status(each))
            for each in judged
            if each.ruling is not None and each.ruling.verdict is not Verdict.ASK and _is_recorded(each)
        ]
        away = {each.wish.execution_id for each in judged if each.wish.node.status is not NodeStatus.ONLINE}
        open_ = [each for each in new if not each.status.settled]
        left = {
            each.execution_id: _Awaited.of(self.dispatch.live, each) for each in open_ if each.execution_id not in away
        }
        try:
            await self.dispatch.send(*new)
            for command in open_:
                if command.execution_id in away:
                    yield command
            async for settled in self._settled(left, timeout_s):
                yield settled
        finally:
            for each in left.values():
                each.leave.close()

    def _status(self, judged: JudgedWish) -> CommandStatus:
        return self.dispatch.status_at_once(judged.wish.node) if judged.problem is None else CommandStatus.BLOCKED

    async def _settled(self, left: "dict[str, _Awaited]", timeout_s: float) -> AsyncGenerator[NodeCommand, None]:
        """Yield commands as they are settled, and forget each: a thousand results are much to hold."""
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        until = loop.time() + timeout_s
        for each in left.values():
            each.future.add_done_callback(lambda _: came.set())
        while left:
            came.clear()
            for execution_id in [name for name, each in left.items() if each.future.done()]:
                yield left.pop(execution_id).settled()
            patience_s = min(LOOK_AGAIN_S, until - loop.time())
            if not left or (patience_s > 0 and await _within(patience_s, came)):
                continue
            for execution_id in await self._to_look_at(left, is_over=patience_s <= 0):
                found = await self.dispatch.commands.find(execution_id)
                if found is not None and not found.status.settled and patience_s > 0:
                    continue
                left.pop(execution_id).leave.close()
                if found is not None:  # else somebody has deleted it
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

    def settled(self) -> NodeCommand:
        """Return the command, and wait no more."""
        self.leave.close()
        return self.future.result()


async def _within(patience_s: float, came: asyncio.Event) -> bool:
    """Tell whether something has come in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await came.wait()
    return came.is_set()


def _is_recorded(judged: JudgedWish) -> bool:
    return judged.problem is None or isinstance(judged.problem, NodeBlocked)
