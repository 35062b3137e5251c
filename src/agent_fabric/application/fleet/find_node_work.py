"""Finds what other servers have left for nodes that are connected here, where no hint has told of it."""

from dataclasses import dataclass

from agent_fabric.application.fleet.attempts import attempt
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import NodeWork


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
        """Look until cancelled."""
        while True:
            await self.clock.sleep(self.every_s)
            if len(self.live):
                await attempt(self.look(), "It could not be looked up what there is for nodes")

    async def look(self) -> None:
        """Look once."""
        for node_id in await self.work(at=self.clock.now()):
            self.live.review(node_id)
