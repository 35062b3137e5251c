"""Deletes the saved files of runs together with the runs."""

from dataclasses import dataclass

from agent_fabric.application.ports.audit import RetentionStore
from agent_fabric.application.ports.workspace_archive import ObjectStore
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True)
class SavedRetention:
    """RetentionStore that deletes what was saved for other machines, too."""

    inner: RetentionStore
    objects: ObjectStore

    async def settled_before(self, at: float) -> list[RunId]:
        return await self.inner.settled_before(at)

    async def remove(self, run_id: RunId, *, by: str, reason: str) -> int:
        freed = await self.inner.remove(run_id, by=by, reason=reason)
        try:
            await self.objects.remove(f"{run_id}/")
        except StoreUnavailable as problem:
            raise StoreUnavailable(
                f"Run {run_id} is deleted, but not its saved files: {problem.message}",
                hint=f"Delete what begins with {run_id}/ there.",
            ) from None
        return freed

    async def sweep(self) -> int:
        return await self.inner.sweep()
