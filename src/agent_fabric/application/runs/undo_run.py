"""Takes back what a run changed."""

import asyncio
import os
from collections.abc import Sequence

from agent_fabric.application.ports.changes import UndoRecord
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.runs.diff_run import DiffRun, RunDiff
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import Entry, EntryKind, FileChange, below_any, same
from agent_fabric.domain.runs.undo import UndoPlan, UndoRefusal, UndoStep, plan_undo


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What was taken back, and what was not."""

    run_id: RunId
    folder: str
    done: Sequence[UndoStep]
    refused: Sequence[UndoRefusal]
    already: Sequence[str]
    """Paths that were as before already."""
    dry: bool
    """Nothing was touched: this is what would happen."""
    record: int | None = None
    """The number under which it is recorded; None: nothing was touched."""

    @property
    def paths(self) -> list[str]:
        """The paths that were put back."""
        return [step.path for step in self.done]


@dataclass(frozen=True, slots=True)
class UndoRun:
    """Use case: put back what a run changed, unless someone has changed it since."""

    diff: DiffRun
    clock: Clock

    async def __call__(
        self,
        run_id: RunId,
        *,
        by: str,
        paths: Sequence[str] = (),
        redo: bool = False,
        dry: bool = False,
        force: bool = False,
    ) -> Undone:
        """Take everything back, or what lies below `paths`; with `redo`, put back what was last taken back.

        Paths are relative to the folder that the run worked in, or absolute.

        If one path was changed by someone else since, nothing is touched, unless forced. What is overwritten is kept.

        Raises:
            RunNotFound: there is no such run.
            RunHeld, FolderHeld: someone works there at this moment.
            ConfigError: the run changed none of `paths`, or there is nothing to put back.
            StoreFull, StoreUnavailable: see `Undoing.carry_out`.
        """
        if dry:
            return await self._undo(run_id, by=by, paths=paths, redo=redo, dry=True, force=force)
        held, _, _ = await self.diff.runs.take(run_id)
        try:
            return await self._undo(run_id, by=by, paths=paths, redo=redo, dry=False, force=force)
        finally:
            await held.release()

    async def _undo(
        self, run_id: RunId, *, by: str, paths: Sequence[str], redo: bool, dry: bool, force: bool
    ) -> Undone:
        found = await self.diff(run_id)
        paths = [_relative(path, found.folder) for path in paths]
        changes = _taken_back(found) if redo else found.changes
        _require_known(found, changes, paths)
        plan = await asyncio.to_thread(self._plan, found, changes, paths, force)
        if dry or not plan.steps or (plan.blocked and not force):
            done = plan.steps if dry or not plan.blocked else ()
            return _undo_result(found, plan, done, dry=dry)
        record = UndoRecord(
            number=1 + max((one.number for one in found.undos), default=0),
            at=self.clock.now(),
            by=by,
            steps=_with_those_begun(found, plan.steps, redo=redo),
            redo=redo,
            forced=force,
        )
        undoing, folder = self.diff.undoing, found.folder
        left = await asyncio.to_thread(undoing.carry_out, run_id, folder, plan.steps, record)
        return _undo_result(found, plan, plan.steps, left=left, record=record.number)

    def _plan(self, found: RunDiff, changes: Sequence[FileChange], paths: Sequence[str], force: bool) -> UndoPlan:
        now = self.diff.history.take_snapshot(found.folder)
        half_way = {step.path for record in found.undos[-1:] if not record.finished for step in record.steps}
        return plan_undo(changes, now, paths=paths, unfinished=half_way, force=force)


def _relative(path: str, folder: str) -> str:
    return os.path.relpath(path, folder) if path.startswith(f"{folder}/") else path


def _with_those_begun(found: RunDiff, steps: Sequence[UndoStep], *, redo: bool) -> list[UndoStep]:
    """Return the steps together with those of an attempt that was killed, which knew what was there at first."""
    together = {step.path: step for step in steps}
    for record in found.undos[-1:]:
        if not record.finished and record.redo == redo:
            together |= {step.path: step for step in record.steps}
    return [together[path] for path in sorted(together)]


def _undo_result(
    found: RunDiff,
    plan: UndoPlan,
    steps: Sequence[UndoStep],
    *,
    dry: bool = False,
    left: Sequence[str] = (),
    record: int | None = None,
) -> Undone:
    late = [UndoRefusal(path, "it was being changed, or cannot be kept", final=False) for path in left]
    return Undone(
        run_id=found.run_id,
        folder=found.folder,
        done=[step for step in steps if step.path not in left],
        refused=[*plan.refused, *late],
        already=plan.already,
        dry=dry,
        record=record,
    )


def _taken_back(found: RunDiff) -> list[FileChange]:
    """Return the last undo as changes, so that taking those back puts everything where it was."""
    if not found.undos or found.undos[-1].redo:
        raise ConfigError(
            f"Nothing of run {found.run_id} was undone", hint=f"See what it changed: fabric diff {found.run_id}"
        )
    return [
        FileChange(path=step.path, before=_kept_entry(step.current), after=step.target)
        for step in found.undos[-1].steps
        if not same(step.current, step.target)
    ]


def _kept_entry(entry: Entry | None) -> Entry | None:
    """Return an entry of which the undo has kept the content."""
    return entry._replace(kept=True) if entry is not None and entry.kind is EntryKind.FILE else entry


def _require_known(found: RunDiff, changes: Sequence[FileChange], paths: Sequence[str]) -> None:
    for path in paths:
        if not any(below_any(change.path, (path,)) for change in changes):
            raise ConfigError(
                f"Run {found.run_id} did not change {path!r}",
                hint=f"Name paths relative to {found.folder}: fabric diff {found.run_id} --name-only",
            )
