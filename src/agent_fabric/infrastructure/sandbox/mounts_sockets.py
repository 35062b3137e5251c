"""Unix sockets that other programs keep in a workspace: a development server, a process manager, a database.

A box has a network of its own, but a socket with a path is reached by its path, and whoever listens works outside. So
a box covers those that are there when it is made. The kernel lists them, so no folder has to be searched.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

_LISTED = Path("/proc/net/unix")
_PATH_AT = 7
_NEVER = ("@", "/run/", "/var/run/")
"""How sockets begin that have no path, or lie where no project is."""

Known = frozenset[tuple[Path, int]]
"""Sockets by their path and the number of their file: one that was made anew is another one."""


def sockets_in(workspace: Path, listed: Path = _LISTED) -> Known:
    """Return the sockets of programs outside that lie in this folder, a real path.

    The kernel knows a socket by the path that its program gave: a relative one is taken as from the workspace, where
    the programs of a project are started.
    """
    found = set[tuple[Path, int]]()
    around = str(workspace)
    with suppress(OSError):
        for line in listed.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]:
            words = line.split(None, _PATH_AT)
            if len(words) > _PATH_AT and not words[_PATH_AT].startswith(_NEVER):
                found |= _if_within(around, os.path.join(around, words[_PATH_AT]))  # noqa: PTH118 - as below
    return frozenset(found)


def _if_within(workspace: str, path: str) -> Known:
    with suppress(OSError, ValueError):
        status = os.lstat(path)  # for each command, so without path objects
        folder, _, name = path.rpartition("/")
        place = f"{os.path.realpath(folder)}/{name}"
        if stat.S_ISSOCK(status.st_mode) and place.startswith(f"{workspace}/"):
            return frozenset({(Path(place), status.st_ino)})
    return frozenset()
