"""Calls a node, whichever server holds its connection: directly, or through the store."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from agent_fabric.application.fleet.json_rpc import LinkLost, RpcFailed
from agent_fabric.application.fleet.live_nodes import LiveNodes, NodeLink
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import CallRelay
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, NodeUnavailable
from agent_fabric.domain.fleet.commands import RelayedCall
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.protocol import RpcCode

MIN_LOOK_S, MAX_LOOK_S = 0.1, 1.0
"""An answer that another server brings is looked for, and less and less often: a hint tells of it."""
FORGET_AFTER_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class CallNodes:
    """Use case: one call of a node, and its answer."""

    live: LiveNodes
    relay: CallRelay
    clock: Clock
    shared: bool
    """Whether other servers share the store; without them, a node that is not connected here is not there."""
    hint: Callable[[NodeId], None] = lambda _: None
    """Lets the server that holds the connection look."""
    hint_answered: Callable[[str], None] = lambda _: None
    """Lets the server that has asked look."""
    _answering: set[str] = field(default_factory=set)
    _awaited: dict[str, asyncio.Event] = field(default_factory=dict)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)

    async def __call__(self, node: Node, method: str, params: Mapping[str, Any], *, timeout_s: float) -> Any:
        """Return what the node answers.

        Raises:
            RpcFailed: it answers with an error.
            NodeUnavailable: it is not connected, or does not answer in time.
        """
        link = self.live.find(node.id)
        try:
            if link is not None:
                return await link.peer.call(method, params, timeout_s=timeout_s)
            if not self.shared or node.status is not NodeStatus.ONLINE:
                raise NodeUnavailable(f"{node.name} is not connected")
            return await self._relay(node, method, params, timeout_s)
        except (LinkLost, OSError) as problem:
            raise NodeUnavailable(f"{node.name} is not connected any more: {problem}") from None
        except TimeoutError:
            raise NodeUnavailable(f"{node.name} did not answer within {timeout_s:g} s") from None

    async def _relay(self, node: Node, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        now = self.clock.now()
        call = RelayedCall(
            id=str(uuid.uuid4()),
            node_id=node.id,
            method=method,
            params=params,
            created_at=now,
            expires_at=now + timeout_s,
        )
        await self.relay.ask(call)
        self.hint(node.id)
        answer = await self._answer_to(call.id, timeout_s)
        if "error" in answer:
            error = answer["error"]
            if error.get("lost"):
                raise LinkLost(str(error.get("message", "")))
            raise RpcFailed(int(error["code"]), str(error["message"]), error.get("data"))
        return answer.get("result")

    async def _answer_to(self, call_id: str, timeout_s: float) -> Mapping[str, Any]:
        """Wait until another server has answered a call.

        Raises:
            TimeoutError: none has.
        """
        answered, look_s = asyncio.Event(), MIN_LOOK_S
        self._awaited[call_id] = answered
        try:
            async with asyncio.timeout(timeout_s):
                while (answer := await self.relay.take(call_id)) is None:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(look_s):
                            await answered.wait()
                    answered.clear()
                    look_s = min(MAX_LOOK_S, look_s * 1.5)
                return answer
        finally:
            del self._awaited[call_id]

    def heard_answer(self, call_id: str) -> None:
        """Another server has answered a call: look, if it is one of ours."""
        if (answered := self._awaited.get(call_id)) is not None:
            answered.set()

    async def answer_waiting(self, link: NodeLink) -> None:
        """Make the calls that other servers have for a node which is connected here; each is answered by itself."""
        if not self.shared:
            return
        for call in await self.relay.waiting(link.node_id, at=self.clock.now()):
            if call.id in self._answering:
                continue
            self._answering.add(call.id)
            task = asyncio.create_task(self._answer(link, call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, link: NodeLink, call: RelayedCall) -> None:
        left_s = max(0.1, call.expires_at - self.clock.now())
        answer: dict[str, Any]
        try:
            answer = {"result": await link.peer.call(call.method, call.params, timeout_s=left_s)}
        except RpcFailed as problem:
            answer = {"error": {"code": int(problem.code), "message": problem.message, "data": problem.data}}
        except (LinkLost, TimeoutError, OSError) as problem:
            answer = {"error": {"code": int(RpcCode.INTERNAL), "message": str(problem), "lost": True}}
        try:
            await self.relay.answer(call.id, answer)
        except FabricError as problem:  # the caller is told that there is no answer; it is not made a second time
            _log.warning("The answer of node %s could not be kept: %s", link.node_id, problem.message)
            return
        self._answering.discard(call.id)
        self.hint_answered(call.id)

    async def forget_old(self) -> None:
        """Forget calls whose answer no one has fetched."""
        if self.shared:
            await self.relay.forget(expired_before=self.clock.now() - FORGET_AFTER_S)
