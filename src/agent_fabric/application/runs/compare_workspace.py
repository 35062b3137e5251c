"""Looks at what a run has changed in its workspace, before its result is judged."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_fabric.application.ports.changes import ChangeHistory
from agent_fabric.domain.changes import DriveSnapshots, Entry, EntryKind, FileChange, FolderSnapshot, changes_of
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.test_files import covers, is_test_file, may_test
from agent_fabric.domain.workspace_events import WorkspaceCompared

MAX_LISTED = 200
MAX_TEST_FILES = 100
MAX_TEST_BYTES = 256_000
"""Of one file with tests; a longer one is not looked into."""

NOT_KNOWN = WorkspaceCompared(known=False)


@dataclass(frozen=True, slots=True)
class CompareWorkspace:
    """Use case: say what is different in a workspace since its run began."""

    history: Callable[[], ChangeHistory]
    """Gives what was recorded of project folders, as soon as it is asked for."""
    own_workspace: Callable[[RunId], str]
    """The folder that a run has to itself."""

    async def __call__(self, run_id: RunId, workspace: str) -> WorkspaceCompared:
        """Compare. What cannot be looked at is not known: a run must not end for that."""
        try:
            return await asyncio.to_thread(self._compare, run_id, workspace)
        except (FabricError, OSError):
            return NOT_KNOWN

    def _compare(self, run_id: RunId, workspace: str) -> WorkspaceCompared:
        history = self.history()
        drives = history.drives(run_id)
        if not drives and workspace != self.own_workspace(run_id):
            return NOT_KNOWN  # it belongs to a workflow, whose steps share it
        now = history.take_snapshot(workspace)
        snapshots = [] if drives else [DriveSnapshots(history.start_of(run_id), now)]
        for nth, drive in enumerate(drives):
            later = drives[nth + 1].before if nth + 1 < len(drives) else now
            snapshots.append(DriveSnapshots(drive.before, drive.after or later))
        changes = changes_of(snapshots)
        return _told(changes, _tests_of(changes, now, lambda path, entry: history.content(workspace, path, entry)))


def _told(changes: Sequence[FileChange], tests: Sequence[str]) -> WorkspaceCompared:
    shown = changes[:MAX_LISTED]
    return WorkspaceCompared(
        created=tuple(_path(change) for change in shown if change.before is None),
        modified=tuple(_path(change) for change in shown if change.before is not None and change.after is not None),
        deleted=tuple(_path(change) for change in shown if change.after is None),
        more=len(changes) - len(shown),
        tests=tuple(tests),
    )


def _path(change: FileChange) -> str:
    entry = change.after or change.before
    # Names that are no text cannot stand in a log as they are.
    path = change.path.encode("utf-8", "replace").decode()
    return f"{path}/" if entry is not None and entry.kind is EntryKind.FOLDER else path


def _tests_of(
    changes: Sequence[FileChange], now: FolderSnapshot, content: Callable[[str, Entry], bytes | None]
) -> list[str]:
    """Return the files with tests that use what was changed, or that were changed themselves."""
    changed = [change.path for change in changes if change.after is not None and change.after.kind is EntryKind.FILE]
    gone = [change.path for change in changes if change.after is None]
    if not changed and not gone:
        return []
    found = [path for path in changed if is_test_file(path)]
    candidates = [path for path, entry in now.entries.items() if entry.kind is EntryKind.FILE and may_test(path)]
    for path in sorted(candidates)[:MAX_TEST_FILES]:
        entry = now.entries[path]
        data = content(path, entry) if path not in found and entry.size <= MAX_TEST_BYTES else None
        if data is not None and covers(path, data.decode(errors="replace"), (*changed, *gone)):
            found.append(path)
    return sorted(found)
