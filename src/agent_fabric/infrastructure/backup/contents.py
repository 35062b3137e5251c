"""What of a fabric folder belongs into a backup, and what never does."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from agent_fabric.infrastructure.runs.log.layout import require_unlinked
from agent_fabric.infrastructure.tree_walk import MAX_DEPTH, TreeEntry, walk_tree

DATABASE: Final = "fabric.db"
MANIFEST: Final = "manifest.json"
BACKUPS: Final = "backups"
"""Folder in a fabric folder in which a server puts backups."""

_FOLDERS: Final = ("changes", "runs")
_WORKSPACE: Final = "workspace"
_MAX_DEPTH: Final = MAX_DEPTH + 10
"""As deep as a run may make folders, below its own."""
_SETTINGS: Final = (".json", ".yaml", ".yml", ".toml")
_ALSO: Final = ("run_index.jsonl", "secrets.sealed")
"""Secrets are sealed with keys that lie elsewhere, so they are safe in a backup, and worth nothing without those."""


class Found(NamedTuple):
    """One thing to be kept."""

    name: str
    """Its path in the fabric folder, with slashes."""
    kind: int
    """What `stat.S_IFMT` says of it."""
    folder: int | None = None
    """The open folder in which it lies, only until the next one is asked for; None: the fabric folder."""
    is_whole: bool = True
    """Whether what a folder holds follows; it may not be listed, or lies too deep."""


def kept_files(root: Path, *, workspaces: bool) -> Iterator[Found]:
    """Find what lies beside the store and belongs to it: settings, the files of runs, copies for undo.

    Raises:
        FolderLinked: a folder has become a link; it would be missing from the backup.

    Named are those that are wanted, not those that are not: a token or a key that someone puts there one day must
    not find its way into a backup.
    """
    for entry in _sort(root):
        if entry.name in _ALSO or entry.name.endswith(_SETTINGS):
            if entry.is_file(follow_symlinks=False):
                yield Found(entry.name, stat.S_IFREG)
        elif entry.name in _FOLDERS:
            require_unlinked(root, entry.name)
            yield from _below(root, entry.name, workspaces=workspaces)


def may_be_restored(name: str) -> bool:
    """Tell whether a name is one that a backup has, and leads to nowhere else."""
    path = PurePosixPath(name)
    parts = path.parts
    if not parts or "\0" in name or path.is_absolute() or str(path) != name:
        return False
    if any(part in {"..", "."} or len(os.fsencode(part)) > 255 for part in parts):
        return False
    if len(parts) == 1:
        return name in {DATABASE, *_ALSO, *_FOLDERS} or name.endswith(_SETTINGS)
    return parts[0] in _FOLDERS


def is_in_workspace(name: str) -> bool:
    """Tell whether a path lies among the files of a run, where anything may lie."""
    parts = PurePosixPath(name).parts
    return len(parts) > 3 and parts[0] == "runs" and parts[2] == _WORKSPACE


def _below(root: Path, name: str, *, workspaces: bool) -> Iterator[Found]:
    yield Found(name, stat.S_IFDIR)

    def is_wanted(entry: TreeEntry) -> bool:
        return workspaces or not is_in_workspace(f"{name}/{entry.path}/x")

    for entry in walk_tree(root / name, max_depth=_MAX_DEPTH, enter=is_wanted):
        inner, kind = f"{name}/{entry.path}", stat.S_IFMT(entry.status.st_mode)
        if kind == stat.S_IFLNK and not is_in_workspace(inner):
            require_unlinked((root / inner).parent, entry.name)
        if kind == stat.S_IFDIR:
            if is_wanted(entry):
                yield Found(inner, kind, entry.folder, is_whole=entry.problem is None)
        elif kind in (stat.S_IFREG, stat.S_IFLNK):
            yield Found(inner, kind, entry.folder)


def _sort(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)
