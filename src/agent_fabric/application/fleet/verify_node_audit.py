"""Compares what a node has recorded with what the hub has: each keeps a record that the other cannot change."""

from dataclasses import dataclass
from typing import NamedTuple

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.application.ports.fleet import CommandRepository
from agent_fabric.domain.errors import NodeUnavailable
from agent_fabric.domain.fleet.chain import EMPTY_HEAD, ChainEntry, first_broken
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.domain.fleet.protocol import Method

PAGE = 500
MAX_ENTRIES = 1_000_000
TIMEOUT_S = 30.0
_BEGAN = frozenset({"started", "finished", "in_doubt"})
_ANSWERED = frozenset({CommandStatus.SUCCESS, CommandStatus.ERROR, CommandStatus.IN_DOUBT})


class NodeAudit(NamedTuple):
    """What both records say."""

    node: str
    entries: int
    intact: bool
    """Whether the node's record is an unbroken chain, and the heads that it has signed fit."""
    only_node: tuple[str, ...]
    """Calls that the node carried out and the hub does not know."""
    only_hub: tuple[str, ...]
    """Calls with a result at the hub that the node's record does not have."""


@dataclass(frozen=True, slots=True)
class VerifyNodeAudit:
    """Use case: read a node's whole record, check its chain, and hold it against the hub's commands."""

    commands: CommandRepository
    call: CallNodes

    async def __call__(self, node: Node) -> NodeAudit:
        """Compare both.

        Raises:
            NodeUnavailable: the node is not connected, or does not answer.
        """
        entries = await self._entries(node)
        broken = first_broken(entries)
        heads = {entry.position: entry.hash for entry in entries}
        kept = await self.commands.list(node.id, limit=MAX_ENTRIES)
        known = {command.execution_id for command in kept}
        began = {entry.execution_id for entry in entries if entry.kind in _BEGAN}
        ran = {
            command.execution_id
            for command in kept
            if command.status in _ANSWERED and command.result is not None and "code" not in command.result
        }
        told = [command.result.get("chain_head") for command in kept if command.result is not None]
        heads[0] = EMPTY_HEAD
        fitting = all(heads.get(head["position"]) == head["hash"] for head in told if isinstance(head, dict))
        return NodeAudit(
            node.name,
            len(entries),
            broken is None and fitting,
            tuple(sorted(began - known)),
            tuple(sorted(ran - began)),
        )

    async def _entries(self, node: Node) -> list[ChainEntry]:
        found: list[ChainEntry] = []
        while len(found) < MAX_ENTRIES:
            after = found[-1].position if found else 0
            try:
                told = await self.call(node, Method.AUDIT, {"after": after, "limit": PAGE}, timeout_s=TIMEOUT_S)
                page = [ChainEntry(**each) for each in told["entries"]]
            except (RpcFailed, KeyError, TypeError) as problem:
                raise NodeUnavailable(f"{node.name} does not show its record: {problem}") from None
            found += page
            if len(page) < PAGE:
                break
        return found
