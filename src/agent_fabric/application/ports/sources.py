"""The pages that a run has read, kept as they came."""

from collections.abc import Sequence
from typing import Protocol

from agent_fabric.application.ports.web import Page
from agent_fabric.domain.tools.findings import Source


class Snapshots(Protocol):
    """One run's pages, beside its workspace and out of reach of its tools. May be used concurrently."""

    async def keep(self, page: Page, *, fetched_at: float) -> Source:
        """Keep a page, whole or not at all; keeping it twice is the same as once."""
        ...

    async def find(self, url: str) -> Source | None:
        """Return the page that was kept last under an address, asked for or answered; None if there is none."""
        ...

    async def versions(self, url: str) -> Sequence[Source]:
        """Return every page that was kept under an address, the newest first: it may have changed in between."""
        ...

    async def damage_to(self, source: Source) -> str:
        """Say what is wrong with what is kept for a page; nothing if it is what was fetched and read."""
        ...
