"""Refuses folders that have become symbolic links: nothing behind one is read, written or removed."""

import os
import stat
from pathlib import Path

from agent_fabric.domain.errors import FolderLinked


def require_unlinked(base: str | Path, *names: str) -> None:
    """Check that none of the names below a folder, one inside the other, is a link; a missing one ends the check.

    Raises:
        FolderLinked: one is.
    """
    path = str(base)
    for name in names:
        path = os.path.join(path, name)  # noqa: PTH118 - on the way of every run
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return  # what is not there leads nowhere
        if stat.S_ISLNK(mode):
            raise FolderLinked(
                f"{path} has become a link, so nothing behind it is touched",
                hint="Remove the link and put the folder itself back in its place, or restore it from a backup.",
            )


def require_workspace_unlinked(workspace: str) -> None:
    """Check that a recorded workspace is still the folder itself.

    That of a run's own lies in `runs/RUN_ID/workspace`; a project folder was recorded without links on the way.

    Raises:
        FolderLinked: it, or a folder on the way to it, has become a link.
    """
    parts = Path(workspace).parts
    own = len(parts) > 3 and parts[-3] == "runs" and parts[-1] == "workspace"
    first = -3 if own else 1
    if parts:
        require_unlinked(Path(*parts[:first]), *parts[first:])
