"""Tells what a run changed."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from agent_fabric.application.ports.changes import ChangeHistory, RecordedDrive, Undoing, UndoRecord
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import DriveSnapshots, FileChange, FolderSnapshot, changes_of
from agent_fabric.domain.runs.task import RunStatus

SureUntil = Callable[[FolderSnapshot], int | None]


def drive_snapshots(
    drives: Sequence[RecordedDrive],
    start: Callable[[], FolderSnapshot],
    now: FolderSnapshot,
    sure_until: SureUntil = lambda _: None,
) -> list[DriveSnapshots]:
    """Return the folder before and after each drive of a run.

    Args:
        drives: What was recorded; nothing for a run with a workspace of its own.
        start: Gives what such a run found in its workspace.
        now: The folder as it stands, for an end that is not recorded.
        sure_until: Gives the time of the last event before a snapshot that stands in for such an end.
    """
    if not drives:
        return [DriveSnapshots(start(), now, sure_until(now))]
    # After a driver that was killed, the next one, or we, see the folder as it and later drivers left it.
    seen_next = [*(drive.before for drive in drives[1:]), now]
    return [
        DriveSnapshots(drive.before, seen, sure_until(seen))
        if drive.after is None
        else DriveSnapshots(drive.before, drive.after)
        for drive, seen in zip(drives, seen_next, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """What a run did to the folder it worked in."""

    run_id: RunId
    folder: str
    status: RunStatus
    changes: Sequence[FileChange]
    left_alone: Sequence[str]
    """Folders that no one looked into."""
    seen_now: bool
    """The end is not recorded: it is the folder as it stands now."""
    undos: Sequence[UndoRecord] = ()


@dataclass(frozen=True, slots=True)
class DiffRun:
    """Use case: compare the folder before and after each drive of a run."""

    runs: RunRepository
    history: ChangeHistory
    undoing: Undoing

    async def __call__(self, run_id: RunId) -> RunDiff:
        """Return what the run changed, whether it was by a tool or by a command.

        Raises:
            RunNotFound: there is no such run.
            StoreUnavailable: what was recorded cannot be read.
        """
        events = await self.runs.read(run_id)
        state = await fold_log(run_id, events)
        return await asyncio.to_thread(self._look, run_id, folder_of(events), state.status, events)

    def content(self, found: RunDiff, change: FileChange) -> tuple[bytes | None, bytes | None]:
        """Return what a file held before and after; None where it was no file, or that is not known any more."""
        before, after = (
            None if entry is None else self.history.content(found.folder, change.path, entry)
            for entry in (change.before, change.after)
        )
        return before, after

    def _look(self, run_id: RunId, folder: str, status: RunStatus, events: Sequence[Event]) -> RunDiff:
        drives = self.history.drives(run_id)
        seen_now = not drives or drives[-1].after is None
        now = self.history.take_snapshot(folder) if seen_now else FolderSnapshot()
        times = [int(event.ts * 1e9) for event in events]

        def sure_until(seen: FolderSnapshot) -> int:
            return max((at for at in times if seen is now or at <= seen.taken_at_ns), default=0)

        snapshots = drive_snapshots(drives, partial(self.history.start_of, run_id), now, sure_until)
        return RunDiff(
            run_id=run_id,
            folder=folder,
            status=status,
            changes=changes_of(snapshots),
            left_alone=sorted({path for one in snapshots for path in (*one.before.left_alone, *one.after.left_alone)}),
            seen_now=seen_now,
            undos=self.undoing.records(run_id),
        )


def folder_of(events: Sequence[Event]) -> str:
    """Return where a run works."""
    body = events[0].body
    return body.workspace if isinstance(body, RunCreated) else ""
