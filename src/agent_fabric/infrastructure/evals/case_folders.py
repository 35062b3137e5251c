"""Folders in which cases begin and are checked."""

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent_fabric.application.ports.evals import WorkspaceUncheckable
from agent_fabric.domain.errors import RunFilesWithheld, StoreFull, StoreUnavailable
from agent_fabric.domain.evals.definition import CaseFile
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.runs.log.layout import Layout, require_workspace_unlinked
from agent_fabric.infrastructure.tree_walk import TreeEntry, TreeTooDeep, remove_tree, walk_tree

START: Final = "start"
CHECK: Final = "check"
MAX_COPIED_BYTES: Final = 2_000_000_000
MAX_COPIED_ENTRIES: Final = 100_000
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PRIVATE: Final = 0o700
_MODE: Final = 0o777


class RunCaseFolders:
    """CaseFolders below the folders of runs."""

    def __init__(self, layout: Layout, *, max_bytes: int = MAX_COPIED_BYTES) -> None:
        self._layout = layout
        self._max_bytes = max_bytes

    async def stage(self, run_id: RunId, files: Mapping[str, CaseFile]) -> str:
        return await asyncio.to_thread(self._stage, run_id, files)

    async def copy_for_check(self, run_id: RunId, workspace: str | None, files: Mapping[str, CaseFile]) -> str:
        return await asyncio.to_thread(self._copy, run_id, workspace, files)

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(remove_tree, path)

    def _stage(self, run_id: RunId, files: Mapping[str, CaseFile]) -> str:
        folder = self._layout.own("runs", run_id, START)
        try:
            folder.mkdir(parents=True)
            for name, file in files.items():
                _write(folder / name, file)
        except OSError as problem:
            remove_tree(folder)
            raise _unmakeable(problem) from None
        return str(folder)

    def _copy(self, run_id: RunId, workspace: str | None, files: Mapping[str, CaseFile]) -> str:
        if workspace is not None:
            require_workspace_unlinked(workspace)
            if not Path(workspace).is_dir():
                raise RunFilesWithheld(f"The workspace {workspace} is gone", hint="Try the case again.")
        folder = self._layout.own("runs", run_id, CHECK)
        remove_tree(self._layout.own("runs", run_id, START))  # of a process that was killed when the run had just begun
        remove_tree(folder)  # of a check that was killed
        try:
            folder.mkdir(parents=True)
            if workspace is not None:
                _copy_tree(workspace, folder, self._max_bytes)
            for name, file in files.items():
                _make_way(folder, name)
                _write(folder / name, file)
        except OSError as problem:
            remove_tree(folder)
            if problem.errno in _NO_ROOM:
                raise _unmakeable(problem) from None
            raise WorkspaceUncheckable(str(problem)) from None
        except WorkspaceUncheckable:
            remove_tree(folder)
            raise
        return str(folder)


def _unmakeable(problem: OSError) -> StoreUnavailable:
    if problem.errno in _NO_ROOM:
        return StoreFull("The disk is full: a trial has no room", hint="Free some space, then resume.")
    return StoreUnavailable(
        f"The folder of a trial cannot be made: {problem.strerror or problem}", hint="Check the disk, then resume."
    )


def _write(path: Path, file: CaseFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    if file.executable:
        path.chmod(0o755)


def _make_way(folder: Path, name: str) -> None:
    """Remove what a trial has left in the place of a file of its check: a link, a file for a folder, a folder."""
    path = folder
    *parents, last = name.split("/")
    for part in parents:
        path /= part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
        elif path.exists():
            path.chmod(path.stat().st_mode | _PRIVATE)
    path /= last
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _copy_tree(source: str, target: Path, max_bytes: int) -> None:
    """Copy files, folders and links; no link is followed.

    Raises:
        WorkspaceUncheckable: there is too much.
        OSError: it cannot be read or written.
    """
    size = 0
    modes: list[tuple[Path, int]] = []
    for entries, entry in enumerate(walk_tree(source), 1):
        size += entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
        if entries > MAX_COPIED_ENTRIES or size > max_bytes:
            limit = f"{MAX_COPIED_ENTRIES:,} files or {max_bytes:,} bytes"
            raise WorkspaceUncheckable(f"it has more than {limit}")
        _copy_entry(entry, target / entry.path, modes)
    for path, mode in reversed(modes):
        path.chmod(mode)


def _copy_entry(entry: TreeEntry, path: Path, modes: list[tuple[Path, int]]) -> None:
    mode = entry.status.st_mode
    if isinstance(entry.problem, TreeTooDeep):
        raise WorkspaceUncheckable(f"{entry.path[:200]}: {entry.problem.strerror}")
    if stat.S_ISDIR(mode):
        path.mkdir(_PRIVATE)
        modes.append((path, mode & _MODE))
    elif stat.S_ISLNK(mode):
        path.symlink_to(os.readlink(entry.name, dir_fd=entry.folder))
    elif stat.S_ISREG(mode):
        _copy_file(entry, path)


def _copy_file(entry: TreeEntry, path: Path) -> None:
    with path.open("xb") as copy:
        try:
            source = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=entry.folder)
        except PermissionError:
            pass  # unreadable on purpose, perhaps: the check sees that it is there
        else:
            with os.fdopen(source, "rb") as original:
                shutil.copyfileobj(original, copy)
        os.fchmod(copy.fileno(), entry.status.st_mode & _MODE)
    os.utime(path, ns=(entry.status.st_atime_ns, entry.status.st_mtime_ns))
