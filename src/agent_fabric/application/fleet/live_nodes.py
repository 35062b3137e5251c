"""The nodes that are connected to this process, and who waits for their results."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from agent_fabric.application.fleet.json_rpc import RpcPeer
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.commands import NodeCommand
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.domain.fleet.protocol import HEARTBEAT_S


@dataclass(slots=True, eq=False)
class NodeLink:
    """One connection that has shown who it is."""

    node_id: NodeId
    peer: RpcPeer
    close: Callable[[int, str], None]
    """Ends it, with a code and a reason."""
    seen_at: float
    """When it was last heard of, on the clock that only goes forward."""
    heartbeat_s: float = HEARTBEAT_S
    """How often the node was told to be heard of."""
    stored_at: float = 0.0
    """The moment of `seen_at` that the store knows."""
    held_by: str = ""
    """Who holds the connection, as the store knows it."""
    generation: int = 0
    """Which connection of the node it is, counted by the hub; another server may have a newer one."""
    policy: Mapping[str, Any] = field(default_factory=dict)
    """The hub's policy as the node has it."""
    doubted: bool = False
    """Whether a server has asked if someone is still there at the other end."""
    changed: bool = False
    """Whether something about the node may have changed in the store."""
    wake: Callable[[], None] = lambda: None
    """Lets it look for what is to be sent."""
    in_flight: set[str] = field(default_factory=set)
    offer: Callable[[NodeCommand], None] | None = None
    """Sends a command that is durable and marked as sent."""


@dataclass(slots=True, eq=False)
class _Awaited:
    """A command that someone waits for."""

    future: "asyncio.Future[NodeCommand]"
    waiters: int = 0


class LiveNodes:
    """Who is connected here."""

    def __init__(self) -> None:
        self._links: dict[NodeId, NodeLink] = {}
        self._waiting: dict[str, _Awaited] = {}

    def __len__(self) -> int:
        return len(self._links)

    def find(self, node_id: NodeId) -> NodeLink | None:
        return self._links.get(node_id)

    def all(self) -> list[NodeLink]:
        return list(self._links.values())

    def put(self, link: NodeLink) -> None:
        """Let a connection be the one of its node."""
        self._links[link.node_id] = link

    def drop(self, link: NodeLink) -> bool:
        """Forget a connection; tell whether it was the one of its node."""
        if self._links.get(link.node_id) is not link:
            return False
        del self._links[link.node_id]
        return True

    def poke(self, node_id: NodeId) -> None:
        """Let the connection of a node look for what is to be sent."""
        if (link := self._links.get(node_id)) is not None:
            link.wake()

    def review(self, node_id: NodeId, *, doubted: bool = False) -> None:
        """Let the connection of a node look at what the store says about the node, and for what is to be sent."""
        if (link := self._links.get(node_id)) is not None:
            link.changed = True
            link.doubted = link.doubted or doubted
            link.wake()

    def is_awaited(self, execution_id: str) -> bool:
        """Tell whether someone in this process waits for a command."""
        return execution_id in self._waiting

    @contextmanager
    def awaiting(self, execution_id: str) -> "Iterator[asyncio.Future[NodeCommand]]":
        """Lend a future that is done when the command is settled in this process; several may wait for the same."""
        found = self._waiting.get(execution_id)
        if found is None:
            found = self._waiting[execution_id] = _Awaited(asyncio.get_running_loop().create_future())
        found.waiters += 1
        try:
            yield found.future
        finally:
            found.waiters -= 1
            if not found.waiters:
                del self._waiting[execution_id]

    def settle(self, command: NodeCommand) -> None:
        """Tell the waiters that a command is settled."""
        found = self._waiting.get(command.execution_id)
        if found is not None and not found.future.done():
            found.future.set_result(command)
