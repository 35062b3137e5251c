"""The hub's end of a node's connection: who is it, then commands to it and results from it."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from agent_fabric.application.fleet.dispatch_command import CommandRequest
from agent_fabric.application.fleet.enrol_node import machine_of
from agent_fabric.application.fleet.hub import Hub
from agent_fabric.application.fleet.json_rpc import LinkLost, RpcFailed, RpcPeer
from agent_fabric.application.fleet.live_nodes import NodeLink
from agent_fabric.application.fleet.review_link import answers
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.fleet.binding import BoundCall, timeout_of
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand, bound_call, status_after
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus, heartbeat_for
from agent_fabric.domain.fleet.plans import PlanStatus
from agent_fabric.domain.fleet.protocol import (
    CLONE_PING_TIMEOUT_S,
    MAX_IN_FLIGHT,
    MIN_PROTOCOL,
    CloseCode,
    Method,
    RpcCode,
    hub_message,
    node_message,
)
from agent_fabric.domain.policy.verdicts import Ruling, Verdict

HINT_GRACE_S = 0.5
"""How much longer than a ping another server may take to say what came of it."""
ASK_AGAIN_S = 0.1
_MAX_FLOOR_TEXT = 200_000

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ServeLink:
    """Use case: one connection, from the first message to the last."""

    hub: Hub
    close: Callable[[int, str], None]
    token: str = ""
    """From the address, to enrol with (C08)."""
    _peer: RpcPeer | None = None
    _node: Node | None = None
    _challenge: str = ""
    _told: Mapping[str, Any] = field(default_factory=dict)
    _link: NodeLink | None = None
    _sending: "SendCommands | None" = None

    def attach(self, peer: RpcPeer) -> None:
        """Use a peer to call the node."""
        self._peer = peer

    async def handle(self, method: str, params: Mapping[str, Any]) -> Any:
        if self._link is None:
            if method == Method.IDENTIFY and self._node is None:
                return await self._identify(params)
            if method == Method.PROVE and self._node is not None:
                return await self._prove(params)
            raise RpcFailed(RpcCode.UNPROVEN, "show who you are first: agent.identify, then agent.prove")
        self._link.seen_at = self.hub.clock.monotonic()
        match method:
            case Method.HEARTBEAT:
                self._link.heartbeat_s = heartbeat_for(len(self.hub.live))
                return {"heartbeat_s": self._link.heartbeat_s}
            case Method.RESULT:
                result = params.get("result")
                told = result if isinstance(result, dict) else {}
                await finish_command(self.hub, self._link.node_id, str(params.get("execution_id", "")), told)
                return {}
            case _:
                raise RpcFailed(RpcCode.UNKNOWN, f"the hub does not know {method[:100]!r}")

    @property
    def is_proven(self) -> bool:
        """Whether it is known whose connection it is."""
        return self._link is not None

    async def end(self) -> None:
        """Note that the connection is over, and let go of everything: a thousand may end at the same moment."""
        if self._sending is not None:
            self._sending.stop()
        link, self._peer, self._sending = self._link, None, None
        try:
            if link is not None and self.hub.live.drop(link):
                await self._note_offline(link)
        finally:
            self._link = None

    async def _identify(self, params: Mapping[str, Any]) -> dict[str, Any]:
        agent_id, about = params.get("agent_id"), params.get("node")
        told = about if isinstance(about, Mapping) else {}
        spoken = told.get("protocol", 1)  # the first programs did not say it
        if not isinstance(spoken, int) or spoken < MIN_PROTOCOL:
            reason = f"its program is too old: protocol {str(spoken)[:20]}, and {MIN_PROTOCOL} is needed"
            raise self._refusal(CloseCode.UPGRADE, reason)
        os_info = params.get("os_info")
        machine = os_info if isinstance(os_info, Mapping) else {}
        token = self.token or str(params.get("token") or "")
        if token:
            node = await self._enrol(token, str(told.get("public_key", "")), machine)
        else:
            found = await self.hub.nodes.find(str(agent_id)) if isinstance(agent_id, str) else None
            node = self._known_node(found if found is not None and found.id == agent_id else None)
        nonce, self._challenge = str(told.get("nonce", ""))[:200], secrets.token_hex(32)
        # What it says about itself counts when it has shown who it is: its id is no secret.
        self._told = {
            **machine_of(machine),
            "supported_tools": _tools(params),
            "reported": _reported_fields(params, told),
        }
        self._node = node
        return {
            "challenge": self._challenge,
            "hub_signature": self.hub.key.sign(hub_message(node.id, nonce, self._challenge)),
            "key": node.public_key,
            **({"agent_id": node.id, "name": node.name, "hub_key": self.hub.key.public} if token else {}),
        }

    async def _enrol(self, token: str, public_key: str, machine: Mapping[str, Any]) -> Node:
        try:
            joined = await self.hub.join(token, public_key, str(machine.get("hostname", "")), machine)
        except FabricError as problem:
            raise self._refusal(CloseCode.UNAUTHENTICATED, problem.message) from None
        return self._known_node(joined)

    def _known_node(self, node: Node | None) -> Node:
        if node is None:
            raise self._refusal(CloseCode.UNAUTHENTICATED, "this hub does not know the node")
        if node.status is NodeStatus.REVOKED:
            raise self._refusal(CloseCode.REVOKED, "the node is revoked")
        if node.status is NodeStatus.PENDING:
            raise self._refusal(CloseCode.UNAUTHENTICATED, "the node waits for a person to confirm it")
        return node

    def _refusal(self, code: CloseCode, reason: str) -> RpcFailed:
        self.close(code, reason)
        return RpcFailed(RpcCode.UNPROVEN, reason)

    async def _prove(self, params: Mapping[str, Any]) -> dict[str, Any]:
        assert self._node is not None
        node, state = self._node, str(params.get("state", ""))
        message = node_message(node.id, self.hub.key.public, self._challenge, state)
        self._challenge = secrets.token_hex(32)  # good for one try
        if not self.hub.is_signed(node.public_key, message, str(params.get("signature", ""))):
            raise self._refusal(CloseCode.UNAUTHENTICATED, "the signature is not that of the node's key")
        node = self._known_node(await self.hub.nodes.find(node.id))
        if node.status is NodeStatus.CONFLICT:
            raise self._refusal(CloseCode.CONFLICT, f"the node is in conflict: {node.note}")
        known = await self.hub.nodes.states(node.id)
        if node.generation and state not in {known.current, known.previous}:
            await self._conflict(node, "a copy of its folder has connected: it showed an old state")
        other = self.hub.live.find(node.id)
        if other is not None:
            if await answers(other):
                await self._conflict(node, "a second machine has connected while the first one answers")
            other.close(1001, "another connection of the node has taken over")
            self.hub.live.drop(other)
        elif self.hub.shared and node.status is NodeStatus.ONLINE:
            await self._ask_other_servers(node)
        fresh = secrets.token_hex(16)
        now, passed = self.hub.clock.now(), self.hub.clock.monotonic()
        holder = await asyncio.to_thread(self.hub.holder) if self.hub.shared else ""
        changes = {
            **self._told,
            "state": fresh,
            "previous_state": state,
            "status": NodeStatus.ONLINE.value,
            "last_seen": now,
            "generation": node.generation + 1,
            "held_by": holder,
        }
        stored = await self.hub.nodes.update(node.id, changes, generation=node.generation)
        if stored is None:
            self._known_node(await self.hub.nodes.find(node.id))
            raise self._refusal(CloseCode.TRY_AGAIN, "another connection of the node was made at the same moment")
        # A thousand connections idle most of the time: what the store knows is not kept here as well.
        self._node, self._told = None, {}
        assert self._peer is not None
        self._link = NodeLink(
            stored.id,
            self._peer,
            self.close,
            passed,
            stored_at=passed,
            held_by=holder,
            generation=stored.generation,
            policy=dict(stored.security_policy_json),
        )
        self.hub.live.put(self._link)
        self._link.heartbeat_s = heartbeat_for(len(self.hub.live))
        self._sending = SendCommands(self.hub, self._link)
        self._sending.start()
        return {
            "session": secrets.token_hex(8),
            "state": fresh,
            "heartbeat_s": self._link.heartbeat_s,
            "policy": dict(stored.security_policy_json),
        }

    async def _ask_other_servers(self, node: Node) -> None:
        """Wait until the server that holds the node's connection has looked whether someone is there.

        It marks the node offline, or in conflict. A server that was killed says nothing: its nodes wait this long.
        """
        self.hub.hint({"node": node.id, "doubt": True})
        until = self.hub.clock.monotonic() + CLONE_PING_TIMEOUT_S + HINT_GRACE_S
        while self.hub.clock.monotonic() < until:
            await self.hub.clock.sleep(ASK_AGAIN_S)
            found = self._known_node(await self.hub.nodes.find(node.id))
            if found.status is NodeStatus.CONFLICT:
                raise self._refusal(CloseCode.CONFLICT, f"the node is in conflict: {found.note}")
            if found.status is not NodeStatus.ONLINE:
                return

    async def _conflict(self, node: Node, reason: str) -> None:
        """Stop both: which of them is the true one, only a person can tell."""
        await self.hub.nodes.update(node.id, {"status": NodeStatus.CONFLICT.value, "note": reason})
        self.hub.hint({"node": node.id})
        if (other := self.hub.live.find(node.id)) is not None:
            self.hub.live.drop(other)
            other.close(CloseCode.CONFLICT, reason)
        _log.warning("node %s (%s) is in conflict: %s", node.name, node.id, reason)
        raise self._refusal(CloseCode.CONFLICT, reason)

    async def _note_offline(self, link: NodeLink) -> None:
        """Note that the node is not there any more, unless it has a newer connection."""
        found = await self.hub.nodes.find(link.node_id)
        if found is not None and found.status in {NodeStatus.ONLINE, NodeStatus.OFFLINE}:
            changes = {"status": NodeStatus.OFFLINE.value, "last_seen": self.hub.clock.now()}
            await self.hub.nodes.update(found.id, changes, generation=link.generation)


def _tools(params: Mapping[str, Any]) -> tuple[str, ...]:
    capabilities = params.get("capabilities")
    found = capabilities.get("native_tools") if isinstance(capabilities, Mapping) else None
    return tuple(str(each)[:100] for each in found[:200]) if isinstance(found, list) else ()


def _reported_fields(params: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of what a node says about itself."""
    capabilities, servers = params.get("capabilities"), params.get("mcp_servers")
    flags = capabilities if isinstance(capabilities, Mapping) else {}
    floor = told.get("floor")
    return {
        "version": str(told.get("version", ""))[:100],
        "program": str(told.get("program", ""))[:64],
        "uid": told.get("uid") if isinstance(told.get("uid"), int) else -1,
        "floor": dict(floor) if isinstance(floor, Mapping) and len(str(floor)) <= _MAX_FLOOR_TEXT else {},
        "approvals": "signed" if told.get("approvals") == "signed" else "hub",
        "approvers": [str(each)[:100] for each in told.get("approvers") or ()][:100],
        "roots": [str(each)[:4095] for each in told.get("roots") or ()][:100],
        "quorum": told.get("quorum") if isinstance(told.get("quorum"), int) else 1,
        "file_transfer": flags.get("file_transfer") is True,
        "pty_support": flags.get("pty_support") is True,
        "mcp_servers": [_server(each) for each in servers[:100]] if isinstance(servers, list) else [],
    }


def _server(told: object) -> dict[str, str]:
    """Return the name of a tool server and how it is reached; whatever else a node says about it is not kept."""
    about = told if isinstance(told, Mapping) else {}
    return {key: str(about.get(key, ""))[:100] for key in ("name", "transport")}


GRACE_S = 30.0
"""A node may take this much longer than a command's own time to answer."""


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
        self._is_over = True
        self.link.offer, self.link.wake = None, lambda: None
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
            await self._settle(command, CommandStatus.EXPIRED, "it expired before the node was there")
            return None
        node = await self.hub.nodes.find(command.agent_id)
        if node is None or node.status is NodeStatus.REVOKED:
            await self._settle(command, CommandStatus.CANCELLED, "the node is revoked")
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
            await self._settle(command, CommandStatus.CANCELLED, "the plan was aborted")
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
            await self._settle(command, CommandStatus.BLOCKED, ruling.reason)
            return None
        why = "policy, key or user of the node have changed since: ask again"
        await self._settle(command, CommandStatus.ERROR, why)
        return None

    async def _settle(self, command: NodeCommand, status: CommandStatus, why: str) -> None:
        result, since = {"status": status.value, "error": why}, (CommandStatus.QUEUED,)
        moved = await self.hub.commands.move(
            command.execution_id, status, since=since, at=self.hub.clock.now(), result=result
        )
        if moved is not None:
            _tell_settled(self.hub, moved)


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
