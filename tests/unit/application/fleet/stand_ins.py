"""Nodes and connections without machines, for tests of the hub's half of the fleet."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from agent_fabric.application.fleet.json_rpc import LinkLost, RpcPeer
from agent_fabric.application.fleet.live_nodes import LiveNodes, NodeLink
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from memory_storage import MemoryNodes

WEB = NodeId("0f0e0d0c-0000-4000-8000-000000000001")


@dataclass(slots=True)
class StubPeer:
    """RpcPeer whose other end is a function, or nobody."""

    answer: Callable[[str, Mapping[str, Any]], Any] | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def call(self, method: str, params: Mapping[str, Any], *, timeout_s: float | None) -> Any:
        self.calls.append((method, dict(params)))
        await asyncio.sleep(0)
        if self.answer is None:
            raise LinkLost("nobody is there")
        return self.answer(method, params)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.calls.append((method, dict(params)))


def connect(live: LiveNodes, peer: StubPeer, *, generation: int = 1) -> tuple[NodeLink, list[tuple[int, str]]]:
    """Return a connection of the node, and how it was closed."""
    closed: list[tuple[int, str]] = []
    link = NodeLink(
        WEB, cast("RpcPeer", peer), lambda code, why: closed.append((code, why)), 0.0, generation=generation
    )
    live.put(link)
    return link, closed


def nodes_with(**changes: Any) -> MemoryNodes:
    """Return a repository with one node that is online."""
    nodes = MemoryNodes()
    values: dict[str, Any] = {"status": NodeStatus.ONLINE, "generation": 1, "last_seen": 1_000_000.0, **changes}
    nodes.kept[WEB] = Node(id=WEB, name="web-1", public_key="aa", **values)
    return nodes
