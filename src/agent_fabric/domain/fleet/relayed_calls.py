"""A call of a node that another server makes: the one that holds the node's connection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.domain.fleet.nodes import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedCall:
    """One call on its way through the store."""

    id: str
    node_id: NodeId
    method: str
    params: Mapping[str, Any]
    created_at: float
    expires_at: float
    """No one waits for the answer any more after this moment."""
