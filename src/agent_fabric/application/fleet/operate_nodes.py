"""What people do to nodes: name, label, rule, rotate, revoke, resolve. Each is on record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.fleet.json_rpc import LinkLost, RpcFailed
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import CommandRepository, NodeRepository
from agent_fabric.domain.acts import Act, Deed
from agent_fabric.domain.errors import InvalidInputs, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.handshake import rotation_message
from agent_fabric.domain.fleet.node_policy import PolicyProblem, node_policy
from agent_fabric.domain.fleet.nodes import Node, NodeStatus, labels_from, node_name
from agent_fabric.domain.fleet.protocol import CloseCode, Method
from agent_fabric.domain.identity import Principal

ANSWER_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class OperateNodes:
    """Use cases about one node each."""

    nodes: NodeRepository
    commands: CommandRepository
    live: LiveNodes
    clock: Clock
    is_signed: Callable[[str, bytes, str], bool]

    async def find(self, which: str) -> Node:
        """Return a node by id or name.

        Raises:
            NodeNotFound: there is none.
        """
        found = await self.nodes.find(which)
        if found is None:
            raise NodeNotFound(f"There is no node {which[:80]!r}", hint="See them with: fabric nodes list")
        return found

    async def rename(self, which: str, name: str, *, by: Principal) -> Node:
        """Give a node another name."""
        node = await self.find(which)
        try:
            changes = {"name": node_name(name)}
        except ValueError as problem:
            raise InvalidInputs(str(problem)) from None
        return await self._change(node, changes, by, Deed.NODE_CHANGED, f"name {name}")

    async def label(self, which: str, changes: Mapping[str, str | None], *, by: Principal) -> Node:
        """Set labels, or remove those whose value is None."""
        node = await self.find(which)
        labels = {key: value for key, value in {**node.labels, **changes}.items() if value is not None}
        try:
            kept = labels_from(labels)
        except ValueError as problem:
            raise InvalidInputs(str(problem)) from None
        return await self._change(node, {"labels": kept}, by, Deed.NODE_CHANGED, "labels")

    async def set_policy(self, which: str, document: Mapping[str, Any], *, by: Principal) -> Node:
        """Set the hub's policy for a node, and sync it; its own floor stays as it is (FC-032).

        Raises:
            InvalidInputs: the document cannot be used.
        """
        node = await self.find(which)
        try:
            node_policy({}, document)
        except (PolicyProblem, ValueError, TypeError) as problem:
            raise InvalidInputs(str(problem)) from None
        changed = await self._change(node, {"security_policy_json": dict(document)}, by, Deed.NODE_POLICY_SET, "")
        if (link := self.live.find(node.id)) is not None:
            try:
                await link.peer.call(Method.POLICY_SYNC, {"policy": dict(document)}, timeout_s=ANSWER_TIMEOUT_S)
            except (LinkLost, RpcFailed, TimeoutError):
                link.close(1001, "the policy could not be synced")  # it gets it when it is back
        return changed

    async def rotate(self, which: str, *, by: Principal) -> Node:
        """Let a node use a new key, which its old key signs.

        Raises:
            NodeUnavailable: it is not connected here, or does not answer as it should.
        """
        node = await self.find(which)
        link = self.live.find(node.id)
        if link is None:
            raise NodeUnavailable(f"{node.name} is not connected, and only it can make its new key")
        try:
            told = await link.peer.call(Method.ROTATE, {}, timeout_s=ANSWER_TIMEOUT_S)
        except (LinkLost, RpcFailed, TimeoutError) as problem:
            raise NodeUnavailable(f"{node.name} did not make a new key: {problem}") from None
        fresh = str(told.get("public_key", ""))
        message = rotation_message(node.id, node.public_key, fresh)
        signed = self.is_signed(node.public_key, message, str(told.get("signature", "")))
        if not signed or not self.is_signed(fresh, message, str(told.get("proof", ""))):
            raise NodeUnavailable(f"{node.name} showed a new key that its old key has not signed")
        changed = await self._change(node, {"public_key": fresh}, by, Deed.NODE_KEY_ROTATED, fresh[:16])
        await link.peer.notify(Method.ROTATED, {"public_key": fresh})
        return changed

    async def revoke(self, which: str, *, by: Principal) -> Node:
        """End a node for good: its connection, its queue, its id."""
        node = await self.find(which)
        changed = await self._change(
            node, {"status": NodeStatus.REVOKED.value, "note": f"by {by.name}"}, by, Deed.NODE_REVOKED, ""
        )
        if (link := self.live.find(node.id)) is not None:
            link.close(CloseCode.REVOKED, f"revoked by {by.name}")
            self.live.drop(link)
        waiting = (CommandStatus.WAITING, CommandStatus.QUEUED, CommandStatus.SENT)
        for command in await self.commands.due(node.id, waiting):
            status = CommandStatus.IN_DOUBT if command.status is CommandStatus.SENT else CommandStatus.CANCELLED
            moved = await self.commands.move(
                command.execution_id,
                status,
                since=waiting,
                at=self.clock.now(),
                result={"status": status.value, "error": "the node was revoked"},
            )
            if moved is not None:
                self.live.settle(moved)
        return changed

    async def resolve(self, which: str, *, keep: bool, by: Principal) -> Node:
        """Settle a conflict, or confirm a node that is pending: keep it, or split off both machines by revoking it.

        Raises:
            InvalidInputs: there is nothing to settle.
        """
        node = await self.find(which)
        if node.status not in {NodeStatus.CONFLICT, NodeStatus.PENDING}:
            raise InvalidInputs(f"{node.name} is {node.status.value}: there is nothing to resolve")
        if not keep:
            return await self.revoke(node.id, by=by)
        # The next machine that connects with the key starts a fresh line of states; a copy is found out again.
        changes = {"status": NodeStatus.OFFLINE.value, "note": "", "generation": 0}
        return await self._change(node, changes, by, Deed.NODE_RESOLVED, node.note)

    async def cancel(self, execution_id: str) -> bool:
        """End a command: one that waits is not sent, one that is under way is ended on the node."""
        found = await self.commands.find(execution_id)
        if found is None:
            raise NodeNotFound(f"There is no command {execution_id[:80]!r}", hint="See them with: fabric nodes queue")
        moved = await self.commands.move(
            execution_id,
            CommandStatus.CANCELLED,
            since=(CommandStatus.WAITING, CommandStatus.QUEUED),
            at=self.clock.now(),
            result={"status": "cancelled", "error": "a person cancelled it"},
        )
        if moved is not None:
            self.live.settle(moved)
            return True
        link = self.live.find(found.agent_id)
        if found.status is not CommandStatus.SENT or link is None:
            return False
        try:
            told = await link.peer.call(Method.CANCEL, {"execution_id": execution_id}, timeout_s=ANSWER_TIMEOUT_S)
        except (LinkLost, RpcFailed, TimeoutError):
            return False
        return isinstance(told, Mapping) and told.get("cancelled") is True

    async def _change(self, node: Node, changes: Mapping[str, Any], by: Principal, deed: Deed, detail: str) -> Node:
        act = Act.of(by, deed, at=self.clock.now(), about=f"{node.name} ({node.id})", detail=detail)
        changed = await self.nodes.update(node.id, changes, act=act)
        if changed is None:
            raise NodeUnavailable(f"{node.name} is revoked")
        return changed
