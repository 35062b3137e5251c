"""What of a fabric folder belongs into a backup, and what never does."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from agent_fabric.infrastructure.runlog.links import require_unlinked

DATABASE: Final = "fabric.db"
MANIFEST: Final = "manifest.json"
BACKUPS: Final = "backups"
"""Folder in a fabric folder in which a server puts backups."""

_FOLDERS: Final = ("changes", "runs")
_WORKSPACE: Final = "workspace"
_SETTINGS: Final = (".json", ".yaml", ".yml", ".toml")
_ALSO: Final = ("run_index.jsonl", "secrets.sealed")
"""Secrets are sealed with keys that lie elsewhere, so they are safe in a backup, and worth nothing without those."""


class Found(NamedTuple):
    """One thing to be kept."""

    name: str
    """Its path in the fabric folder, with slashes."""
    kind: int
    """What `stat.S_IFMT` says of it."""


def kept_files(root: Path, *, workspaces: bool) -> Iterator[Found]:
    """Find what lies beside the store and belongs to it: settings, the files of runs, copies for undo.

    Raises:
        FolderLinked: a folder has become a link; it would be missing from the backup.

    Named are those that are wanted, not those that are not: a token or a key that somebody puts there one day must
    not find its way into a backup.
    """
    for entry in _sorted(root):
        if entry.name in _ALSO or entry.name.endswith(_SETTINGS):
            if entry.is_file(follow_symlinks=False):
                yield Found(entry.name, stat.S_IFREG)
        elif entry.name in _FOLDERS:
            require_unlinked(root, entry.name)
            yield from _below(Path(entry.path), entry.name, workspaces=workspaces)


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


def _below(folder: Path, name: str, *, workspaces: bool) -> Iterator[Found]:
    yield Found(name, stat.S_IFDIR)
    waiting = [(folder, name, iter(_sorted(folder)))]
    while waiting:
        folder, name, entries = waiting[-1]
        entry = next(entries, None)
        if entry is None:
            waiting.pop()
            continue
        inner = f"{name}/{entry.name}"
        try:
            kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
        except OSError:
            continue  # gone meanwhile
        if kind == stat.S_IFLNK and not is_in_workspace(inner):
            require_unlinked(folder, entry.name)
        if kind == stat.S_IFDIR:
            if workspaces or not is_in_workspace(f"{inner}/x"):
                yield Found(inner, stat.S_IFDIR)
                waiting.append((Path(entry.path), inner, iter(_sorted(Path(entry.path)))))
        elif kind == stat.S_IFREG or (kind == stat.S_IFLNK and is_in_workspace(inner)):
            yield Found(inner, kind)


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []  # gone meanwhile, not ours to read, or deeper than a path of the system can be long
