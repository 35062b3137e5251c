"""A node's own record: each entry holds the hash of the one before, and the node signs the newest hash."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.domain.fleet.protocol import canonical

EMPTY_HEAD: Final = "0" * 64
"""The hash before the first entry."""

KEY: Final = "key"
"""The kind of entries about the node's key: `new_public_key` was made, `public_key` counts from here on."""


class ChainEntry(NamedTuple):
    """One thing that happened on the node."""

    position: int
    at: float
    kind: str
    """`received`, `started`, `finished`, `refused`, `in_doubt`, `connected`, `policy`, `key`."""
    execution_id: str
    detail: Mapping[str, Any]
    hash: str

    def plain(self) -> dict[str, Any]:
        return {**self._asdict(), "detail": dict(self.detail)}


def entry_hash(before: str, position: int, at: float, kind: str, execution_id: str, detail: Mapping[str, Any]) -> str:
    """Return the hash of an entry behind another one."""
    return hashlib.sha256(canonical([before, position, at, kind, execution_id, dict(detail)])).hexdigest()


def head_message(agent_id: str, position: int, head: str) -> bytes:
    """Return what a node signs to vouch for everything up to a position."""
    return canonical(["fabric-node-head", agent_id, position, head])


def first_broken(entries: Iterable[ChainEntry], before: str = EMPTY_HEAD) -> int | None:
    """Return the position of the first entry that does not follow from the one before; None: all do."""
    position: int | None = None
    for entry in entries:
        follows = position is None or entry.position == position + 1
        if not follows or entry.hash != entry_hash(before, *entry[:5]):
            return entry.position
        before, position = entry.hash, entry.position
    return None
