"""The snapshots between which a run has changed its folder."""

from collections.abc import Callable, Sequence

from agent_fabric.application.ports.changes import RecordedDrive
from agent_fabric.domain.runs.changes import DriveSnapshots, FolderSnapshot

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
