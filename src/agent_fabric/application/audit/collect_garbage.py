"""Deletes old runs, when asked to or once a day; each leaves a tombstone."""

from collections.abc import Awaitable, Callable, Sequence

from agent_fabric.application.ports.audit import RetentionStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, FolderHeld, FolderLinked, RunHeld, RunNotFound
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


DAY_S = 86_400.0


SETTLING_S = 60.0
"""A server that has just started has better things to do."""


@dataclass(frozen=True, slots=True)
class ApplyRetention:
    """Use case: remove what is older than anyone wants to keep, day after day, and say so."""

    collect_garbage: CollectGarbage
    older_than_days: float
    keep: int
    clock: Clock
    log: OperationsLog

    async def __call__(self) -> None:
        """Go on for ever."""
        await self.clock.sleep(SETTLING_S)
        while True:
            await self.once()
            await self.clock.sleep(DAY_S)

    async def once(self) -> None:
        """Remove what is too old now."""
        try:
            done = await self.collect_garbage(older_than_s=self.older_than_days * DAY_S, by="retention", keep=self.keep)
        except FabricError as problem:
            self.log.warning("retention_failed", code=problem.code, message=problem.message)
            return
        for sentence in done.refused:
            self.log.warning("retention_refused", message=sentence)
        self.log.info("retention_applied", removed=len(done.runs), freed_bytes=done.freed_bytes)
