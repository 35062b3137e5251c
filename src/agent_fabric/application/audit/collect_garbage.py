"""Deletes old runs; each leaves a tombstone."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent_fabric.application.ports.audit import RetentionStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.errors import FolderHeld, FolderLinked, RunHeld, RunNotFound
from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True)
class Collected:
    """What was deleted, or would be."""

    runs: Sequence[RunId]
    freed_bytes: int
    dry_run: bool
    refused: Sequence[str] = ()
    """What was left alone because a folder has become a link, one sentence each."""


@dataclass(frozen=True, slots=True)
class CollectGarbage:
    """Use case: remove runs that settled long ago. Each leaves a tombstone that the audit verifies."""

    attic: RetentionStore
    clock: Clock
    prune_changes: Callable[[], Awaitable[int]]
    """Removes what is kept for the undo of deleted runs only; returns the bytes freed."""

    async def __call__(self, *, older_than_s: float, by: str, keep: int = 0, dry_run: bool = False) -> Collected:
        """Remove what settled more than `older_than_s` ago, but for the newest `keep` of it."""
        found = await self.attic.settled_before(self.clock.now() - older_than_s)
        chosen = found[: max(len(found) - keep, 0)]
        if dry_run:
            return Collected(chosen, 0, dry_run=True)
        removed: list[RunId] = []
        refused: list[str] = []
        freed = 0
        for run_id in chosen:
            try:
                freed += await self.attic.remove(run_id, by=by, reason="old")
            except (RunHeld, RunNotFound):
                continue  # in use, or already deleted
            except FolderLinked as problem:
                refused.append(f"Run {run_id} stays: {problem.message}. {problem.hint}")
                continue
            removed.append(run_id)
        freed += await self.attic.sweep()
        try:
            freed += await self.prune_changes()
        except FolderHeld:
            pass  # a run works in a project folder: the next collection prunes
        except FolderLinked as problem:
            refused.append(f"What is kept for undo stays: {problem.message}. {problem.hint}")
        return Collected(removed, freed, dry_run=False, refused=refused)
