"""What people do to nodes: name, label, rule, rotate, revoke, resolve. Each is on record."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.application.fleet.review_link import ReviewLink
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import Forbidden, InvalidInputs, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.node_policy import PolicyProblem, node_policy
from agent_fabric.domain.fleet.nodes import TRUSTED, Node, NodeStatus, labels_from, node_name
from agent_fabric.domain.fleet.protocol import CloseCode, Method, rotation_message
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.secrets import ed25519

ANSWER_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class OperateNodes:
    """Use cases about one node each."""

    dispatch: DispatchCommand
    is_signed: Callable[[str, bytes, str], bool]
    call: CallNodes
    review: ReviewLink

    async def find(self, which: str) -> Node:
        """Return a node by id or name.

        Raises:
            NodeNotFound: there is none.
        """
        return await self.dispatch.node(which)

    async def rename(self, which: str, name: str, *, by: Principal) -> Node:
        node = await self.find(which)
        try:
            changes = {"name": node_name(name)}
        except ValueError as problem:
            raise InvalidInputs(str(problem)) from None
        return await self._change(node, changes, by, Deed.NODE_CHANGED, f"name {name}")

    async def label(self, which: str, changes: Mapping[str, str | None], *, by: Principal) -> Node:
        """Set labels, or remove those whose value is None.

        Raises:
            Forbidden: the label `trusted`, and the user who sets it is no admin, or is a run.
        """
        if changes.get(TRUSTED) is not None:
            _require_admin(by)
        node = await self.find(which)
        labels = {key: value for key, value in {**node.labels, **changes}.items() if value is not None}
        try:
            kept = labels_from(labels)
        except ValueError as problem:
            raise InvalidInputs(str(problem)) from None
        trust = f", {TRUSTED}={kept.get(TRUSTED, 'no')}" if TRUSTED in changes else ""
        return await self._change(node, {"labels": kept}, by, Deed.NODE_CHANGED, f"labels{trust}")

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
        if (link := self.dispatch.live.find(node.id)) is not None:
            await self.review.sync_policy(link, changed)
        else:
            self.dispatch.wake(node.id)
        return changed

    async def rotate(self, which: str, *, by: Principal) -> Node:
        """Let a node use a new key, which its old key signs.

        Raises:
            NodeUnavailable: it is not connected, or does not answer as it should.
        """
        node = await self.find(which)
        try:
            told = await self.call(node, Method.ROTATE, {}, timeout_s=ANSWER_TIMEOUT_S)
        except RpcFailed as problem:
            raise NodeUnavailable(f"{node.name} did not make a new key: {problem}") from None
        fresh = str(told.get("public_key", ""))
        message = rotation_message(node.id, node.public_key, fresh)
        signed = self.is_signed(node.public_key, message, str(told.get("signature", "")))
        proven = signed and self.is_signed(fresh, message, str(told.get("proof", "")))
        if not proven or ed25519.is_weak(bytes.fromhex(fresh)):
            raise NodeUnavailable(f"{node.name} showed a new key that its old key has not signed")
        changed = await self._change(node, {"public_key": fresh}, by, Deed.NODE_KEY_ROTATED, fresh[:16])
        with suppress(NodeUnavailable, RpcFailed):  # it finds out with its next connection
            await self.call(changed, Method.ROTATED, {"public_key": fresh}, timeout_s=ANSWER_TIMEOUT_S)
        return changed

    async def revoke(self, which: str, *, by: Principal) -> Node:
        """End a node for good: its connection, its queue, its id."""
        node = await self.find(which)
        changed = await self._change(
            node, {"status": NodeStatus.REVOKED.value, "note": f"by {by.name}"}, by, Deed.NODE_REVOKED, ""
        )
        if (link := self.dispatch.live.find(node.id)) is not None:
            link.close(CloseCode.REVOKED, f"revoked by {by.name}")
            self.dispatch.live.drop(link)
        else:
            self.dispatch.wake(node.id)
        waiting = (CommandStatus.WAITING, CommandStatus.QUEUED, CommandStatus.SENT)
        for command in await self.dispatch.commands.due(node.id, waiting):
            status = CommandStatus.IN_DOUBT if command.status is CommandStatus.SENT else CommandStatus.CANCELLED
            moved = await self.dispatch.commands.move(
                command.execution_id,
                status,
                since=waiting,
                at=self.dispatch.clock.now(),
                result={"status": status.value, "error": "the node was revoked"},
            )
            if moved is not None:
                self.dispatch.live.settle(moved)
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
        found = await self.dispatch.commands.find(execution_id)
        if found is None:
            raise NodeNotFound(f"There is no command {execution_id[:80]!r}", hint="See them with: fabric nodes queue")
        if await self.dispatch.end(execution_id, CommandStatus.CANCELLED, "a person cancelled it") is not None:
            return True
        if found.status is not CommandStatus.SENT:
            return False
        try:
            node = await self.find(found.agent_id)
            told = await self.call(node, Method.CANCEL, {"execution_id": execution_id}, timeout_s=ANSWER_TIMEOUT_S)
        except (NodeUnavailable, RpcFailed):
            return False
        return isinstance(told, Mapping) and told.get("cancelled") is True

    async def _change(self, node: Node, changes: Mapping[str, Any], by: Principal, deed: Deed, detail: str) -> Node:
        act = Act.of(by, deed, at=self.dispatch.clock.now(), about=f"{node.name} ({node.id})", detail=detail)
        changed = await self.dispatch.nodes.update(node.id, changes, act=act)
        if changed is None:
            raise NodeUnavailable(f"{node.name} is revoked")
        return changed


def _require_admin(by: Principal) -> None:
    if by.run:
        raise Forbidden("A run cannot trust a machine", hint="An admin does that, in a terminal of their own.")
    if not by.may(Scope.ADMIN):
        raise Forbidden(f"{by.name} may not trust a machine: it needs the scope 'admin'")
