"""Compares what a node has recorded with what the hub has: each keeps a record that the other cannot change."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.application.ports.fleet import CommandRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import NodeUnavailable
from agent_fabric.domain.fleet.chain import EMPTY_HEAD, KEY, ChainEntry, first_broken, head_message
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
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
    unsigned: tuple[str, ...]
    """Calls whose result carries a head of the record that is not in it, or that the node's key has not signed."""


@dataclass(frozen=True, slots=True)
class VerifyNodeAudit:
    """Use case: read a node's whole record, check its chain, and hold it against the hub's commands."""

    commands: CommandRepository
    call: CallNodes
    is_signed: Callable[[str, bytes, str], bool]

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
        heads[0] = EMPTY_HEAD
        keys = _KnownKeys.of(node, entries)
        unsigned = [
            command.execution_id
            for command in kept
            if command.result is not None and not self._vouches(node, keys, heads, command)
        ]
        return NodeAudit(
            node.name,
            len(entries),
            broken is None and not unsigned,
            tuple(sorted(began - known)),
            tuple(sorted(ran - began)),
            tuple(sorted(unsigned)),
        )

    def _vouches(self, node: Node, keys: "_KnownKeys", heads: Mapping[int, str], command: NodeCommand) -> bool:
        """Tell whether the head that came with a result is one of the record, signed by the node."""
        told = (command.result or {}).get("chain_head")
        if not isinstance(told, Mapping):
            return command.status is not CommandStatus.SUCCESS  # everything else the hub may have settled by itself
        position, head = told.get("position"), told.get("hash")
        if not isinstance(position, int) or heads.get(position) != head:
            return False
        if position < keys.since:  # the hub does not keep keys that were replaced
            return True
        message, signature = head_message(node.id, position, str(head)), str(told.get("signature", ""))
        return any(self.is_signed(key, message, signature) for key in keys.all)

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


class _KnownKeys(NamedTuple):
    """Keys by which a node may have signed heads."""

    all: tuple[str, ...]
    since: int
    """Before this position it has used another key, which no one knows any more."""

    @classmethod
    def of(cls, node: Node, entries: Sequence[ChainEntry]) -> "_KnownKeys":
        changed = [entry for entry in entries if entry.kind == KEY]
        adopted = [entry for entry in changed if "public_key" in entry.detail]
        if changed and not adopted:  # an older program has not noted from when on a new key counts
            return cls((node.public_key,), entries[-1].position + 1)
        since = adopted[0].position if adopted else 0
        return cls((node.public_key, *(str(entry.detail["public_key"]) for entry in adopted)), since)
