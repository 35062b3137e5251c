"""Notices nodes that have fallen silent, and what was left by a server that is gone."""

import asyncio
from collections.abc import Awaitable, Callable

from agent_fabric.application.attempts import attempt
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import CommandRepository, NodePresence, NodeRepository, NodeWork, SeenNode
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.nodes import NodeStatus, heartbeat_for, offline_after

SWEEP_S = 2.0
FORGET_EVERY = 15
"""How many sweeps there are between two looks for nodes that a killed server has left."""
LOOK_AGAIN_EVERY = 15
"""How many sweeps there are between two looks of a connection that no one has woken."""
MAX_OPEN = 1_000
LAST_SEEN_S = 60.0
"""How often the time that a node was last heard of is stored."""
_FAILED = "Nodes could not be looked at"


async def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class TrackPresence:
    """Use case: for as long as the server lives, tell who is there and who is not."""

    nodes: NodeRepository
    presence: NodePresence
    commands: CommandRepository
    live: LiveNodes
    clock: Clock
    shared: bool = False
    """Whether other servers share the store: a node that is not connected here may be connected there."""
    forget_calls: Callable[[], Awaitable[None]] = _nothing
    holder: Callable[[], str] = lambda: ""
    """See `Hub`."""

    async def __call__(self) -> None:
        if not self.shared:
            await attempt(self.forget_connections(), _FAILED)
        swept = 0
        while True:
            await asyncio.sleep(SWEEP_S)
            swept += 1
            self.end_silent()
            await attempt(self.note_seen(), _FAILED)
            if not swept % LOOK_AGAIN_EVERY:
                await attempt(self.wake_idle(), _FAILED)
            if self.shared:
                self.review_some(swept)
                if not swept % FORGET_EVERY:
                    await attempt(self.forget_connections(), _FAILED)
                    await attempt(self.forget_calls(), _FAILED)

    def end_silent(self) -> None:
        """End connections that have been silent for three heartbeats."""
        now = self.clock.monotonic()
        for link in self.live.all():
            if now - link.seen_at > offline_after(link.heartbeat_s):
                link.close(1001, "nothing was heard of the node for three heartbeats")

    async def note_seen(self) -> None:
        """Store when nodes were last heard of, each once a minute, and at once if this server has got another id.

        All of them at once: a commit for each would be one for every third heartbeat, and commands wait behind it.
        """
        holder = await asyncio.to_thread(self.holder) if self.shared and len(self.live) else ""
        now, passed = self.clock.now(), self.clock.monotonic()
        due = [
            link for link in self.live.all() if link.seen_at - link.stored_at >= LAST_SEEN_S or link.held_by != holder
        ]
        if not due:
            return
        seen = [SeenNode(link.node_id, link.generation, now - (passed - link.seen_at)) for link in due]
        moments = [link.seen_at for link in due]
        newest = await self.presence.note(seen, held_by=holder)
        for link, moment in zip(due, moments, strict=True):
            link.stored_at, link.held_by = moment, holder
            if link.node_id not in newest:
                self.live.review(link.node_id)

    async def wake_idle(self) -> None:
        """Let connections look again for commands that wait although their node is there: a store was away for a while.

        One look for all of them: a thousand connections that each look by themselves keep the store busy with nothing.
        """
        for command in await self.commands.list(open_only=True, limit=MAX_OPEN):
            link = self.live.find(command.agent_id)
            sends = command.status in {CommandStatus.QUEUED, CommandStatus.SENT}
            if link is not None and sends and command.execution_id not in link.in_flight:
                link.wake()

    def review_some(self, swept: int) -> None:
        """Let a share of the connections look at what other servers have changed, in case that a hint was lost."""
        for number, link in enumerate(self.live.all()):
            if number % LOOK_AGAIN_EVERY == swept % LOOK_AGAIN_EVERY:
                self.live.review(link.node_id)

    async def forget_connections(self) -> None:
        """A server that was killed left its nodes online: they are not, until they are back.

        Where servers share a store, those of a server count that is gone, and nodes that no server has heard of for
        longer than each would store it.
        """
        if self.shared:
            await self.presence.forget_gone()
        limit_s = LAST_SEEN_S + SWEEP_S + offline_after(heartbeat_for(len(self.live))) if self.shared else 0.0
        now = self.clock.now()
        for node in await self.nodes.list():
            gone = node.status is NodeStatus.ONLINE and self.live.find(node.id) is None
            if gone and (node.last_seen is None or now - node.last_seen > limit_s):
                await self.nodes.update(node.id, {"status": NodeStatus.OFFLINE.value}, generation=node.generation)


@dataclass(frozen=True, slots=True)
class FindNodeWork:
    """Use case: for as long as the server lives, let connections look that have something to do.

    One query for all of them, and none without connections.
    """

    work: NodeWork
    live: LiveNodes
    clock: Clock
    every_s: float
    """However many hints come or get lost."""

    async def __call__(self) -> None:
        while True:
            await self.clock.sleep(self.every_s)
            if len(self.live):
                await attempt(self.look(), "It could not be looked up what there is for nodes")

    async def look(self) -> None:
        for node_id in await self.work(at=self.clock.now()):
            self.live.review(node_id)
