"""Machines, invitations and commands in memory, for tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.fleet import NodeStates, SeenNode
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.errors import NameTaken
from agent_fabric.domain.fleet.commands import CommandStatus, Invite, NodeCommand
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.plans import Plan
from agent_fabric.domain.fleet.relayed_calls import RelayedCall


class MemoryNodes:
    """NodeRepository in memory."""

    def __init__(self) -> None:
        self.kept: dict[NodeId, Node] = {}
        self.known: dict[NodeId, NodeStates] = {}
        self.holders: dict[NodeId, str] = {}

    async def list(self, *, revoked: bool = False) -> Sequence[Node]:
        found = (node for node in self.kept.values() if revoked or node.status is not NodeStatus.REVOKED)
        return sorted(found, key=lambda node: (node.name, node.id))

    async def find(self, node_id: str) -> Node | None:
        return self.find_now(node_id)

    def find_now(self, node_id: str) -> Node | None:
        by_name = (n for n in self.kept.values() if n.name == node_id and n.status is not NodeStatus.REVOKED)
        return self.kept.get(NodeId(node_id)) or next(by_name, None)

    async def update(
        self,
        node_id: NodeId,
        changes: Mapping[str, Any],
        *,
        act: Act | None = None,  # noqa: ARG002 - nothing is recorded here
        generation: int | None = None,
    ) -> Node | None:
        node = self.kept.get(node_id)
        if node is None or node.status is NodeStatus.REVOKED or generation not in {None, node.generation}:
            return None
        rest = dict(changes)
        states = self.known.get(node_id, NodeStates("", ""))
        self.known[node_id] = NodeStates(rest.pop("state", states.current), rest.pop("previous_state", states.previous))
        self.holders[node_id] = rest.pop("held_by", self.holders.get(node_id, ""))
        other = self.find_now(str(rest.get("name", "")))
        if other is not None and other.id != node_id:
            raise NameTaken(f"There is a node {other.name!r} already")
        if "status" in rest:
            rest["status"] = NodeStatus(rest["status"])
        self.kept[node_id] = replace(node, **rest)
        return self.kept[node_id]

    async def states(self, node_id: NodeId) -> NodeStates:
        return self.known.get(node_id, NodeStates("", ""))


class MemoryPresence:
    """NodePresence in memory; no other server shares it."""

    def __init__(self, nodes: MemoryNodes) -> None:
        self._nodes = nodes

    async def note(self, seen: Sequence[SeenNode], *, held_by: str) -> Collection[NodeId]:
        newest = set()
        for each in seen:
            node = self._nodes.kept.get(each.node_id)
            if node is not None and node.status in {NodeStatus.ONLINE, NodeStatus.OFFLINE}:
                changes = {"status": NodeStatus.ONLINE, "last_seen": each.at, "held_by": held_by}
                if await self._nodes.update(each.node_id, changes, generation=each.generation) is not None:
                    newest.add(each.node_id)
        return newest

    async def forget_gone(self) -> None:
        return None


class MemoryInvites:
    """InviteRepository in memory."""

    def __init__(self, nodes: MemoryNodes) -> None:
        self._nodes = nodes
        self._invites: dict[str, Invite] = {}
        self._used: dict[NodeId, str] = {}

    async def add(self, invite: Invite, *, act: Act | None = None) -> None:  # noqa: ARG002 - as above
        self._invites[invite.id] = invite

    async def join(
        self,
        token_hash: bytes,
        node: Node,
        *,
        at: float,
        act: Act | None = None,  # noqa: ARG002 - as above
    ) -> Node | None:
        usable = (each for each in self._invites.values() if each.hash == token_hash and each.expires_at > at)
        invite = next(usable, None)
        if invite is None:
            return None
        for known in self._nodes.kept.values():
            if known.public_key == node.public_key:
                again = self._used.get(known.id) == invite.id and known.generation == 0
                return known if again and known.status is not NodeStatus.REVOKED else None
        if invite.uses_left < 1:
            return None
        self._invites[invite.id] = replace(invite, uses_left=invite.uses_left - 1)
        wanted, number = invite.name or node.name, 1
        name = wanted
        while self._nodes.find_now(name) is not None:
            number += 1
            name = f"{wanted[:58]}-{number}"
        status = NodeStatus.PENDING if invite.confirm else NodeStatus.OFFLINE
        note = node.note if invite.confirm else ""
        made = replace(node, name=name, labels=invite.labels, status=status, note=note)
        self._nodes.kept[made.id] = made
        self._used[made.id] = invite.id
        return made

    async def list(self, *, at: float) -> Sequence[Invite]:
        found = (each for each in self._invites.values() if each.expires_at > at and each.uses_left > 0)
        return sorted(found, key=lambda each: (-each.created_at, each.id))


class MemoryPlans:
    """PlanRepository in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Plan] = {}

    async def save(self, plan: Plan) -> None:
        self.kept[plan.id] = plan

    async def replace(self, plan: Plan, *, before: Plan) -> bool:
        found = self.kept.get(plan.id)
        if found is None or _stand(found) != _stand(before):
            return False
        self.kept[plan.id] = plan
        return True

    async def find(self, plan_id: str) -> Plan | None:
        return self.kept.get(plan_id)

    async def list(self, *, open_only: bool = False, limit: int = 100) -> Sequence[Plan]:
        found = (plan for plan in self.kept.values() if not (open_only and plan.status.settled))
        return sorted(found, key=lambda plan: (-plan.created_at, plan.id))[:limit]


def _stand(plan: Plan) -> tuple[object, ...]:
    return plan.status, plan.wave, plan.note, dict(plan.outcomes), plan.online, dict(plan.away)


class MemoryCalls:
    """CallRelay in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, RelayedCall] = {}
        self.answers: dict[str, Mapping[str, Any]] = {}

    async def ask(self, call: RelayedCall) -> None:
        self.kept.setdefault(call.id, call)

    async def waiting(self, node_id: NodeId, *, at: float) -> Sequence[RelayedCall]:
        found = (c for c in self.kept.values() if c.node_id == node_id and c.expires_at > at)
        return sorted((c for c in found if c.id not in self.answers), key=lambda c: (c.created_at, c.id))

    async def answer(self, call_id: str, answer: Mapping[str, Any]) -> None:
        if call_id in self.kept:
            self.answers.setdefault(call_id, dict(answer))

    async def take(self, call_id: str) -> Mapping[str, Any] | None:
        if call_id not in self.answers:
            return None
        self.kept.pop(call_id, None)
        return self.answers.pop(call_id)

    async def forget(self, *, expired_before: float) -> None:
        for call in [each for each in self.kept.values() if each.expires_at < expired_before]:
            del self.kept[call.id]
            self.answers.pop(call.id, None)


class MemoryCommands:
    """CommandRepository in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, NodeCommand] = {}

    async def add(self, *commands: NodeCommand) -> None:
        for command in commands:
            self.kept.setdefault(command.execution_id, command)

    async def find(self, execution_id: str) -> NodeCommand | None:
        return self.kept.get(execution_id)

    async def list(
        self, node_id: NodeId | None = None, *, open_only: bool = False, run_id: str = "", limit: int = 100
    ) -> Sequence[NodeCommand]:
        found = [
            each
            for each in self.kept.values()
            if (node_id is None or each.agent_id == node_id)
            and not (open_only and each.status.settled)
            and run_id in {"", each.run_id}
        ]
        return sorted(found, key=lambda each: (-each.created_at, each.execution_id))[:limit]

    async def due(self, node_id: NodeId, statuses: Sequence[CommandStatus]) -> Sequence[NodeCommand]:
        found = [each for each in self.kept.values() if each.agent_id == node_id and each.status in statuses]
        return sorted(found, key=lambda each: (each.created_at, each.execution_id))

    async def move(
        self, execution_id: str, status: CommandStatus, *, since: Sequence[CommandStatus], at: float, **more: Any
    ) -> NodeCommand | None:
        found = self.kept.get(execution_id)
        if found is None or found.status not in since:
            return None
        ended: dict[str, Any] = {"completed_at": at} if status.settled else {}
        self.kept[execution_id] = replace(found, status=status, **ended, **more)
        return self.kept[execution_id]

    async def finish(
        self, execution_id: str, node_id: NodeId, status: CommandStatus, result: Mapping[str, Any], *, at: float
    ) -> NodeCommand | None:
        found = self.kept.get(execution_id)
        if found is None or found.agent_id != node_id:
            return None
        since = (CommandStatus.SENT, CommandStatus.QUEUED)
        return await self.move(execution_id, status, since=since, at=at, result=dict(result))


class MemoryNodeWork:
    """NodeWork in memory."""

    def __init__(self, nodes: MemoryNodes, commands: MemoryCommands, calls: MemoryCalls) -> None:
        self._nodes, self._commands, self._calls = nodes, commands, calls

    async def __call__(self, *, at: float) -> Sequence[NodeId]:
        queued = {each.agent_id for each in self._commands.kept.values() if each.status is CommandStatus.QUEUED}
        open_calls = (call for call in self._calls.kept.values() if call.id not in self._calls.answers)
        called = {call.node_id for call in open_calls if call.expires_at > at}
        ended = {
            node.id
            for node in self._nodes.kept.values()
            if node.status in {NodeStatus.REVOKED, NodeStatus.CONFLICT} and (node.last_seen or 0.0) > at - 150
        }
        return sorted(queued | called | ended)
