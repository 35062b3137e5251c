"""Giving up root before anything runs at level B: a private view of the files where it can be had, then another user.

Needs nothing but the standard library: it is imported by the helper, which must start fast.
"""

import ctypes
import os
import stat
from contextlib import suppress
from typing import Any, NamedTuple

from agent_fabric.infrastructure.sandbox.idmapped import NO_VIEW, Mapping, own_mounts

_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC = 2, 4, 4096, 16384
_PR_SET_DUMPABLE = 4
CLOSED = "lies in a folder that is closed to the user who runs the commands"
"""How a message ends that tells what they cannot get to."""
_STAGES = ("/mnt", "/media", "/srv", "/opt")

_libc = ctypes.CDLL(None, use_errno=True)


class Place(NamedTuple):
    """Where the commands of a run live."""

    workspace: str
    temporary: str
    environment: dict[str, str]
    """Variables that follow from it."""


def become(setup: dict[str, Any]) -> Place:
    """Become the user that commands run as, with a folder for them that this user can reach.

    For a plain user nothing changes. Root gets its own view of the files first, in which the workspace lies where
    another user can reach it, even if the real one is inside a closed folder; /tmp and /dev/shm are private there.
    Where the system gives root no such view, and so with `own_view` unset, both folders must be that user's already.

    Raises:
        OSError: the workspace is gone, or the system refuses.
    """
    workspace, temporary = os.path.realpath(setup["workspace"]), setup["temporary"]
    if not stat.S_ISDIR(os.stat(workspace).st_mode):  # noqa: PTH116 - the helper starts faster without path objects
        raise NotADirectoryError(20, "the workspace is no folder")
    if os.getuid() == 0:
        (uid, gid), size = setup["owner"], f"{setup['limits']['total_disk_mb']}m"
        if setup["own_view"]:
            own_mounts()
            mapping = Mapping(uid, gid) if setup["mapped"] else None
            workspace, temporary = _private_view(workspace, mapping, f"mode=700,uid={uid},gid={gid},size={size}")
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # As for any other process of this user: who watches over a command must see the files of all its processes.
        _libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0)
        for what, folder in (("the workspace", workspace), ("the folder for temporary files", temporary)):
            if not os.access(folder, os.X_OK):
                raise PermissionError(13, f"{what} {CLOSED}")
    home = f"{temporary}/home"
    with suppress(FileExistsError):
        os.mkdir(home, 0o700)  # noqa: PTH102 - as above
    with open(f"{home}/.gitconfig", "w", encoding="utf-8") as settings:  # noqa: PTH123 - as above
        settings.write(setup["git_settings"])
    return Place(workspace, temporary, {"HOME": home, "TMPDIR": temporary, "PWD": workspace})


def _private_view(workspace: str, mapping: Mapping | None, private: str) -> tuple[str, str]:
    stage = next(path for path in _STAGES if os.path.isdir(path))  # noqa: PTH112 - as above
    opened = os.open(workspace, os.O_PATH | os.O_DIRECTORY)
    try:
        _mount("fabric", stage, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
        place = f"{stage}/workspace"
        os.mkdir(place)  # noqa: PTH102 - as above
        if mapping is not None:
            mapping.show(opened, place)
        else:
            _mount(f"/proc/self/fd/{opened}", place, "", _MS_BIND | _MS_REC)
    finally:
        os.close(opened)
    for path in ("/tmp", "/dev/shm"):  # noqa: S108 - made private here
        _mount("fabric", path, "tmpfs", _MS_NOSUID | _MS_NODEV, private)
    return place, "/tmp"  # noqa: S108 - as above


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode() or None
    )
    if done:
        number = ctypes.get_errno()
        raise OSError(number, f"{NO_VIEW}: mounting {target}: {os.strerror(number)}")
