"""Looks at what a run has changed in its workspace, before its result is judged."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from posixpath import basename, splitext

from agent_fabric.application.ports.changes import ChangeHistory
from agent_fabric.application.runs.drive_snapshots import drive_snapshots
from agent_fabric.domain.changes import Entry, EntryKind, FileChange, FolderSnapshot, changes_of
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.program_files import can_be_run
from agent_fabric.domain.python_tests import PythonTests, read_tests
from agent_fabric.domain.test_files import (
    covers,
    decides_tests,
    is_test_file,
    is_test_setup,
    may_test,
    names_any,
    program_names,
    tested_name,
)
from agent_fabric.domain.test_strength import TestStrength, lost_between, replaces_any, strength_of
from agent_fabric.domain.workspace_events import WorkspaceCompared

MAX_LISTED = 200
MAX_TEST_FILES = 100
MAX_TEST_BYTES = 256_000
"""Of one file with tests; a longer one is not looked into."""

NOT_KNOWN = WorkspaceCompared(known=False)


@dataclass(frozen=True, slots=True)
class CompareWorkspace:
    """Use case: say what is different in a workspace since its run began."""

    history: ChangeHistory
    """What was recorded of project folders."""
    own_workspace: Callable[[RunId], str]
    """The folder that a run has to itself."""

    async def __call__(self, run_id: RunId, workspace: str) -> WorkspaceCompared:
        """Compare. What cannot be looked at is not known: a run must not end for that."""
        try:
            return await asyncio.to_thread(self._compare, run_id, workspace)
        except (FabricError, OSError):
            return NOT_KNOWN

    def _compare(self, run_id: RunId, workspace: str) -> WorkspaceCompared:
        history = self.history
        drives = history.drives(run_id)
        if not drives and workspace != self.own_workspace(run_id):
            return NOT_KNOWN  # it belongs to a workflow, whose steps share it
        now = history.take_snapshot(workspace)
        changes = changes_of(drive_snapshots(drives, partial(history.start_of, run_id), now))
        return _told(changes, now, lambda path, entry: history.content(workspace, path, entry))


_Content = Callable[[str, Entry], bytes | None]


def _told(changes: Sequence[FileChange], now: FolderSnapshot, content: _Content) -> WorkspaceCompared:
    shown = changes[:MAX_LISTED]
    weakened, idle = _strength(changes, now, content)
    tests = _tests_of(changes, now, content)
    python_tests = {path: found for path in tests if (found := _python_tests(path, now, content)) is not None}
    return WorkspaceCompared(
        created=tuple(_path(change) for change in shown if change.before is None),
        modified=tuple(_path(change) for change in shown if change.before is not None and change.after is not None),
        deleted=tuple(_path(change) for change in shown if change.after is None),
        more=len(changes) - len(shown),
        tests=tuple(tests),
        test_functions=sum(found.tests for found in python_tests.values()),
        beyond_unittest=tuple(
            path
            for path, found in python_tests.items()
            if found.tests and not (found.in_cases and _is_in_packages(path, now))
        ),
        weakened=weakened,
        idle_tests=idle,
        touched_at=max((_written(change) for change in changes), default=0.0),
    )


def _python_tests(path: str, now: FolderSnapshot, content: _Content) -> PythonTests | None:
    text = _text(path, now.entries.get(path), content) if path.endswith(".py") else None
    return read_tests(text) if text else None


def _is_in_packages(path: str, now: FolderSnapshot) -> bool:
    """Tell whether every folder that a file lies in is a package of Python."""
    parts = path.split("/")[:-1]
    return all("/".join([*parts[:depth], "__init__.py"]) in now.entries for depth in range(1, len(parts) + 1))


def _strength(
    changes: Sequence[FileChange], now: FolderSnapshot, content: _Content
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say what the changed tests check less than before, and which of them check nothing."""
    before: list[TestStrength] = []
    after: list[TestStrength] = []
    idle: list[str] = []
    programs = program_names(path for path, entry in now.entries.items() if entry.kind is EntryKind.FILE)
    for change in [each for each in changes if decides_tests(each.path)][:MAX_TEST_FILES]:
        was, is_ = (_text(change.path, entry, content) for entry in (change.before, change.after))
        if was is None or is_ is None:
            continue  # what cannot be read is not judged
        before.append(strength_of(change.path, was))
        after.append(strength_of(change.path, is_))
        if (
            change.after is not None
            and is_test_file(change.path)
            and not (after[-1].checks and names_any(is_, programs))
        ):
            idle.append(change.path)
    replaced = tuple(f"{path} replaces what they test" for path in _replacing(changes, content))
    return (*lost_between(before, after), *replaced), tuple(idle)


def _replacing(changes: Sequence[FileChange], content: _Content) -> list[str]:
    """Return the changed settings of tests that put something in the place of what was changed."""
    programs = frozenset(splitext(basename(change.path))[0] for change in changes if can_be_run(change.path))
    setups = [change for change in changes if is_test_setup(change.path)][:MAX_TEST_FILES]
    return [each.path for each in setups if replaces_any(_text(each.path, each.after, content) or "", programs)]


def _text(path: str, entry: Entry | None, content: _Content) -> str | None:
    if entry is None:
        return ""
    data = content(path, entry) if entry.kind is EntryKind.FILE and entry.size <= MAX_TEST_BYTES else None
    return None if data is None else data.decode(errors="replace")


def _written(change: FileChange) -> float:
    """Return when a program or a test was last written; other files may be what a check has left behind."""
    after = change.after
    if after is None or after.kind is not EntryKind.FILE:
        return 0.0
    return after.ctime_ns / 1e9 if can_be_run(change.path) or decides_tests(change.path) else 0.0


def _path(change: FileChange) -> str:
    entry = change.after or change.before
    # Names that are no text cannot stand in a log as they are.
    path = change.path.encode("utf-8", "replace").decode()
    return f"{path}/" if entry is not None and entry.kind is EntryKind.FOLDER else path


def _tests_of(changes: Sequence[FileChange], now: FolderSnapshot, content: _Content) -> list[str]:
    """Return the files with tests that use what was changed, or that were changed themselves."""
    changed = [change.path for change in changes if change.after is not None and change.after.kind is EntryKind.FILE]
    gone = [change.path for change in changes if change.after is None]
    if not changed and not gone:
        return []
    found = [path for path in changed if is_test_file(path)]
    candidates = [path for path, entry in now.entries.items() if entry.kind is EntryKind.FILE and may_test(path)]
    stems = {splitext(basename(path))[0] for path in (*changed, *gone)}
    # Where there are too many to be read, those named after what was changed come first.
    for path in sorted(candidates, key=lambda path: (tested_name(path) not in stems, path))[:MAX_TEST_FILES]:
        entry = now.entries[path]
        data = content(path, entry) if path not in found and entry.size <= MAX_TEST_BYTES else None
        if data is not None and covers(path, data.decode(errors="replace"), (*changed, *gone)):
            found.append(path)
    return sorted(found)
