"""Looks at what a run has changed in its workspace, before its result is judged."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from posixpath import basename, splitext

from agent_fabric.application.ports.changes import ChangeHistory
from agent_fabric.application.runs.diff_run import drive_snapshots
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.evidence.claims import programs_meant, programs_without_tests
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.python_suites import PythonTests, read_tests
from agent_fabric.domain.evidence.suite_files import (
    covers,
    decides_tests,
    has_test_settings,
    is_program,
    is_test_file,
    is_test_setup,
    looks_like_test,
    may_test,
    names_any,
    program_names,
    tested_name,
)
from agent_fabric.domain.evidence.suite_strength import (
    TestStrength,
    has_other_checks,
    lost_between,
    replaces_any,
    strength_of,
)
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import Entry, EntryKind, FileChange, FolderSnapshot, changes_of
from agent_fabric.domain.tools.program_files import can_be_run

MAX_LISTED = 200
MAX_TEST_FILES = 100
MAX_PROGRAMS = 300
"""Programs in a workspace that are searched for the names of others; where there are more, none is."""
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

    async def __call__(self, run_id: RunId, workspace: str, task: str = "") -> WorkspaceCompared:
        """Compare. What cannot be looked at is not known: a run must not end for that."""
        try:
            return await asyncio.to_thread(self._compare, run_id, workspace, task)
        except (FabricError, OSError):
            return NOT_KNOWN

    def _compare(self, run_id: RunId, workspace: str, task: str) -> WorkspaceCompared:
        history = self.history
        drives = history.drives(run_id)
        if not drives and workspace != self.own_workspace(run_id):
            return NOT_KNOWN  # it belongs to a workflow, whose steps share it
        now = history.take_snapshot(workspace)
        changes = changes_of(drive_snapshots(drives, partial(history.start_of, run_id), now))
        return _comparison(changes, now, lambda path, entry: history.content(workspace, path, entry), task)


_Content = Callable[[str, Entry], bytes | None]


def _comparison(changes: Sequence[FileChange], now: FolderSnapshot, content: _Content, task: str) -> WorkspaceCompared:
    shown = changes[:MAX_LISTED]
    weakened, idle = _strength(changes, now, content)
    written = [change.path for change in changes if change.after is not None and change.after.kind is EntryKind.FILE]
    tests = _tests_of(written, [change.path for change in changes if change.after is None], now, content)
    meant = _intended_programs(task, {change.path for change in changes}, now)
    python_tests = {path: found for path in tests if (found := _python_tests(path, now, content)) is not None}
    scripts = {path for path, found in python_tests.items() if found.is_script and path not in written}
    return WorkspaceCompared(
        created=tuple(_path(change) for change in shown if change.before is None),
        modified=tuple(_path(change) for change in shown if change.before is not None and change.after is not None),
        deleted=tuple(_path(change) for change in shown if change.after is None),
        more=len(changes) - len(shown),
        tests=tuple(path for path in tests if path not in scripts),
        check_scripts=tuple(path for path in tests if path in scripts),
        test_functions=sum(found.tests - found.may_skip for found in python_tests.values()),
        beyond_unittest=tuple(
            path
            for path, found in python_tests.items()
            if found.tests and not (found.in_cases and _is_in_packages(path, now))
        ),
        weakened=weakened,
        rewritten_tests=_rewritten(changes, content),
        without_tests=_without_tests([path for path in (*written, *meant) if can_be_run(path)], now, content),
        meant=meant,
        meant_tests=tuple(_tests_of(meant, (), now, content)),
        idle_tests=idle,
        touched_at=max((_last_written(change) for change in changes), default=0.0),
    )


def _intended_programs(task: str, changed: Collection[str], now: FolderSnapshot) -> tuple[str, ...]:
    """Return the programs that the task is about and that are as they were."""
    named = programs_meant(task)
    if any(path == each or path.endswith(f"/{each}") for path in changed for each in named):
        return ()  # of several that it names, some may only be examples
    return tuple(path for path in named if path in now.entries)


def _rewritten(changes: Sequence[FileChange], content: _Content) -> tuple[str, ...]:
    """Return the changed files with tests some of whose earlier checks are gone."""
    tests = [change for change in changes if is_test_file(change.path) and change.before and change.after]
    return tuple(
        change.path
        for change in tests[:MAX_TEST_FILES]
        if has_other_checks(
            change.path, *(_text(change.path, entry, content) or "" for entry in (change.before, change.after))
        )
    )


def _without_tests(programs: Sequence[str], now: FolderSnapshot, content: _Content) -> tuple[str, ...]:
    """Return the programs that no test of the workspace uses; none, if there is too much to look at."""
    files = {path: entry for path, entry in now.entries.items() if entry.kind is EntryKind.FILE and is_program(path)}
    if not programs or len(files) > MAX_PROGRAMS:
        return ()
    texts = {path: _text(path, entry, content) or "" for path, entry in files.items()}
    tests = {path: text for path, text in texts.items() if looks_like_test(path)}
    return programs_without_tests(programs, tests, {path: text for path, text in texts.items() if path not in tests})


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
    for change in [each for each in changes if decides_tests(each.path) or has_test_settings(each.path)][
        :MAX_TEST_FILES
    ]:
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
    setups = [change for change in changes if decides_tests(change.path)][:MAX_TEST_FILES]
    return [
        each.path
        for each in setups
        if replaces_any(_text(each.path, each.after, content) or "", programs, patching=is_test_setup(each.path))
    ]


def _text(path: str, entry: Entry | None, content: _Content) -> str | None:
    if entry is None:
        return ""
    data = content(path, entry) if entry.kind is EntryKind.FILE and entry.size <= MAX_TEST_BYTES else None
    return None if data is None else data.decode(errors="replace")


def _last_written(change: FileChange) -> float:
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


def _tests_of(changed: Sequence[str], gone: Sequence[str], now: FolderSnapshot, content: _Content) -> list[str]:
    """Return the files with tests that use what was changed, or that were changed themselves."""
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
