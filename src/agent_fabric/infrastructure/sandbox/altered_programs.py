"""Programs that files of a workspace can make do something else than their name says.

Without a wall around commands it matters: a program that PATH finds in the workspace is whatever a run has written
there, and git starts what the settings of a repository name.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_fabric.infrastructure.sandbox.mounts_protected import is_harmless

_MAX_SETTINGS_BYTES = 64 * 1024
_OBEYED_HOOK = "post-index-change"
"""The only hook that a git command which reads can start."""


def altered_programs(workspace: str) -> frozenset[str]:
    """Return the names of the programs that a workspace alters."""
    root = Path(os.path.realpath(workspace))
    names = _found_inside(root, os.environ)
    return names if _has_plain_git(root) else names | {"git"}


def _found_inside(root: Path, environment: Mapping[str, str]) -> frozenset[str]:
    """Return the names that PATH finds in the workspace."""
    names: set[str] = set()
    for entry in environment.get("PATH", "").split(os.pathsep):
        folder = Path(os.path.realpath(entry)) if entry.startswith("/") else None
        if folder is not None and folder.is_relative_to(root):
            with suppress(OSError):
                names.update(os.listdir(folder))  # noqa: PTH208 - only the names
    return frozenset(names)


def _has_plain_git(root: Path) -> bool:
    """Tell whether the repository that git finds from here has only settings that start nothing."""
    for folder in (root, *root.parents):
        marker = folder / ".git"
        try:
            if marker.is_dir() and not marker.is_symlink():
                return _is_plain(marker)
            if marker.exists() or marker.is_symlink():
                return _is_plain_worktree(marker)
            if (folder / "HEAD").exists() and (folder / "objects").exists():
                return False  # a bare repository: what looks like files of the project are its settings
        except OSError:
            return False
    return True


def _is_plain_worktree(marker: Path) -> bool:
    """Tell the same of a further working folder, whose `.git` is a file that leads to the repository."""
    if marker.is_symlink():
        return False
    folder = marker.parent / _text(marker).removeprefix("gitdir:").strip()
    shared = folder / (_text(folder / "commondir").strip() or ".")
    return shared.is_absolute() and _is_plain(shared.resolve()) and not (folder / "config.worktree").exists()


def _is_plain(folder: Path) -> bool:
    if not all((folder / name).exists() for name in ("HEAD", "objects", "refs")):
        return False  # then git looks further, and may find another repository
    if any((folder / name).exists() for name in ("commondir", "config.worktree", "modules", f"hooks/{_OBEYED_HOOK}")):
        return False
    return is_harmless(_text(folder / "config"))


def _text(path: Path) -> str:
    """Return a short text; nothing if there is no such file.

    Raises:
        OSError: it cannot be read, or is too long.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return ""
    if len(data) > _MAX_SETTINGS_BYTES:
        raise OSError(f"{path.name} is too long")
    return data.decode(errors="replace")
