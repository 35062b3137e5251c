"""Sends commands to a node that is connected here, and keeps what it answers."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.application.fleet.dispatch_command import CommandRequest
from agent_fabric.application.fleet.hub import Hub
from agent_fabric.application.fleet.json_rpc import LinkLost, RpcFailed
from agent_fabric.application.fleet.live_nodes import NodeLink
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.fleet.binding import BoundCall, timeout_of
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand, bound_call, status_after
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.plans import PlanStatus
from agent_fabric.domain.fleet.protocol import MAX_IN_FLIGHT, Method, RpcCode
from agent_fabric.domain.policy.verdicts import Ruling, Verdict

GRACE_S = 30.0
"""A node may take this much longer than a command's own time to answer."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class SendCommands:
    """Use case: whatever is to be sent over one connection, for as long as it lasts."""

    hub: Hub
    link: NodeLink
    _looking: "asyncio.Task[None] | None" = None
    _is_woken: bool = False
    """Whether there may be more to send than what is being looked at."""
    _is_over: bool = False
    _calls: "set[asyncio.Task[None]]" = field(default_factory=set)

    def start(self) -> None:
        """Send what waits in the store, and whatever is offered."""
        self.link.offer, self.link.wake = self.offer, self.wake
        self.wake()

    def stop(self) -> None:
        """Send nothing any more."""
        self._is_over = True
        self.link.offer, self.link.wake = None, _do_nothing
        for task in (self._looking, *self._calls):
            if task is not None:
                task.cancel()

    def offer(self, command: NodeCommand) -> None:
        """Send a command that is durable and marked as sent; at once, unless too many are under way."""
        if len(self.link.in_flight) >= MAX_IN_FLIGHT:
            self.wake()
        elif command.execution_id not in self.link.in_flight and not self._is_over:
            self._begin(command)

    def wake(self) -> None:
        """Look for what is to be sent. Between two looks a connection has no task: most are idle."""
        self._is_woken = True
        if self._looking is None and not self._is_over:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._after_look)

    def _after_look(self, looking: "asyncio.Task[None]") -> None:
        self._looking = None
        if not looking.cancelled() and (problem := looking.exception()) is not None:
            _log.error("nothing can be sent to node %s now", self.link.node_id, exc_info=problem)
        elif self._is_woken:  # after its last look
            self.wake()

    async def _look(self) -> None:
        """Send what was sent before and never answered, then whatever comes; the node knows what it has done."""
        while self._is_woken:
            self._is_woken = False
            try:
                if self.link.changed and not await self.hub.review(self.link):
                    self._is_over = True
                    return
                await self.hub.call.answer_waiting(self.link)
                await self._send_each()
            except FabricError as problem:  # the store cannot be used now: `TrackPresence` lets it look again
                _log.warning("nothing can be sent to node %s now: %s", self.link.node_id, problem.message)

    async def _send_each(self) -> None:
        link = self.link
        for command in await self.hub.commands.due(link.node_id, (CommandStatus.SENT, CommandStatus.QUEUED)):
            while len(link.in_flight) >= MAX_IN_FLIGHT:
                await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)
            if command.execution_id not in link.in_flight:
                self._begin(command)

    def _begin(self, command: NodeCommand) -> None:
        self.link.in_flight.add(command.execution_id)
        task = asyncio.create_task(self._send(command))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _send(self, command: NodeCommand) -> None:
        try:
            await self._deliver(command)
        except LinkLost:
            pass  # the node has it or not: it is sent again when it is back
        except TimeoutError:
            _log.warning("node %s did not answer %s in time", self.link.node_id, command.execution_id)
        except Exception:  # noqa: BLE001 - one command that fails does not end the others
            _log.exception("command %s could not be sent", command.execution_id)
        finally:
            self.link.in_flight.discard(command.execution_id)

    async def _deliver(self, command: NodeCommand) -> None:
        now = self.hub.clock.now()
        if command.status is CommandStatus.QUEUED:
            ready = await self._ready(command, now)
            if ready is None:
                return
            command = ready
        try:
            result = await self._call(command, now)
        except RpcFailed as refused:
            if refused.code == RpcCode.UNPROVEN:
                return  # it was not looked at: it is sent again
            result = {"status": _refusal_status(refused.code), "error": refused.message, "code": refused.code}
        await finish_command(
            self.hub, self.link.node_id, command.execution_id, result if isinstance(result, dict) else {}
        )
        await self.link.peer.notify(Method.ACK, {"execution_id": command.execution_id})

    async def _call(self, command: NodeCommand, now: float) -> Any:
        """Call the node; if it has not got the newest policy yet, after it has."""
        peer, timeout_s = self.link.peer, timeout_of(command.arguments) + GRACE_S
        try:
            return await peer.call(command.method, command.request(now), timeout_s=timeout_s)
        except RpcFailed as refused:
            node = await self.hub.nodes.find(command.agent_id)
            if refused.code != RpcCode.POLICY_CHANGED or node is None:
                raise
            self.link.policy = {"synced": False}  # whatever it was, the node has another one
            same = node.policy.version == command.policy_version
            if not same or not await self.hub.review.sync_policy(self.link, node):
                raise
        return await peer.call(command.method, command.request(now), timeout_s=timeout_s)

    async def _ready(self, command: NodeCommand, now: float) -> NodeCommand | None:
        """Return a command that may still be sent, durably marked so; one that may not is settled."""
        since = (CommandStatus.QUEUED,)
        if command.expires_at <= now:
            why = {"status": "expired", "error": "it expired before the node was there"}
            await self._settle(command, CommandStatus.EXPIRED, why)
            return None
        node = await self.hub.nodes.find(command.agent_id)
        if node is None or node.status is NodeStatus.REVOKED:
            why = {"status": "cancelled", "error": "the node is revoked"}
            await self._settle(command, CommandStatus.CANCELLED, why)
            return None
        if command.plan_id and not await self._goes_on(command):
            return None
        bound = bound_call(node, command.execution_id, command.tool_name, command.arguments, command.expires_at)
        if bound.hash == command.bound_hash:
            return await self.hub.commands.move(command.execution_id, CommandStatus.SENT, since=since, at=now)
        return await self._judge_again(node, command, bound, now)

    async def _goes_on(self, command: NodeCommand) -> bool:
        """Tell whether the plan of a command still goes on; one that is halted keeps its commands until it does."""
        status = await self.hub.plan_status(command.plan_id)
        if status in {PlanStatus.RUNNING, PlanStatus.COMPLETED, PlanStatus.INCOMPLETE}:
            return True
        if status not in {PlanStatus.HALTED, PlanStatus.WAITING}:
            why = {"status": "cancelled", "error": "the plan was aborted"}
            await self._settle(command, CommandStatus.CANCELLED, why)
        return False

    async def _judge_again(self, node: Node, command: NodeCommand, bound: BoundCall, now: float) -> NodeCommand | None:
        """Decide about a command whose node has other rules, another key or user now than when it was asked for.

        What needs no approval under the rules of now is sent under them. A plan's call is not: it was frozen.
        """
        since = (CommandStatus.QUEUED,)
        try:
            ruling = self.hub.judge(CommandRequest.again(node, command))
        except FabricError as problem:  # the node has lost the tool
            ruling = Ruling(Verdict.BLOCK, problem.message, "unusable_node", command.tool_name)
        if ruling.verdict is Verdict.ALLOW and not command.plan_id:
            fresh = {"policy_version": bound.policy_version, "bound_hash": bound.hash, "rule": ruling.rule}
            return await self.hub.commands.move(command.execution_id, CommandStatus.SENT, since=since, at=now, **fresh)
        if ruling.verdict is Verdict.BLOCK:
            await self._settle(command, CommandStatus.BLOCKED, {"status": "blocked", "error": ruling.reason})
            return None
        why = {"status": "error", "error": "policy, key or user of the node have changed since: ask again"}
        await self._settle(command, CommandStatus.ERROR, why)
        return None

    async def _settle(self, command: NodeCommand, status: CommandStatus, result: Mapping[str, Any]) -> None:
        """Settle a command that is not sent."""
        moved = await self.hub.commands.move(
            command.execution_id,
            status,
            since=(CommandStatus.QUEUED,),
            at=self.hub.clock.now(),
            result=dict(result),
        )
        if moved is not None:
            _tell_settled(self.hub, moved)


def _do_nothing() -> None:
    return None


async def finish_command(hub: Hub, node_id: NodeId, execution_id: str, result: dict[str, Any]) -> None:
    """Keep the result of a node durably; the first one counts."""
    status = CommandStatus.BLOCKED if result.get("status") == "blocked" else status_after(result)
    finished = await hub.commands.finish(execution_id, node_id, status, result, at=hub.clock.now())
    if finished is not None:
        _tell_settled(hub, finished)


def _tell_settled(hub: Hub, command: NodeCommand) -> None:
    """Let the waiters of a command know, here or at another server."""
    awaited = hub.live.is_awaited(command.execution_id)
    hub.live.settle(command)
    if hub.shared and not awaited:
        hub.hint({"command": command.execution_id})


def _refusal_status(code: int) -> str:
    match code:
        case RpcCode.BLOCKED:
            return "blocked"
        case RpcCode.EXPIRED:
            return "expired"
        case RpcCode.IN_DOUBT | RpcCode.INTERNAL:  # it may have begun
            return "in_doubt"
        case _:
            return "error"
