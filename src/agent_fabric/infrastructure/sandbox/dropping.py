"""Who runs a box's commands: the person who started us, but never root."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox import dropping_helper, idmapped
from agent_fabric.infrastructure.sandbox.mounts_toolchains import interpreter

DEFAULT_UID = 64_000
"""Whom root's boxes run as, unless the workspace belongs to someone else than root."""

_BOOT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from agent_fabric.infrastructure.sandbox.dropping_helper import main
main()
"""
_PACKAGES = str(Path(dropping_helper.__file__).parents[3])
_RUN_WORKSPACE = re.compile(r"runs/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/workspace")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Owner(NamedTuple):
    """A user and a group, by number."""

    uid: int
    gid: int


def owner_for(workspace: Path, uid: int = DEFAULT_UID) -> Owner:
    """Return who runs commands in this workspace: we ourselves, or for root the workspace's owner or this user.

    Raises:
        OSError: the workspace is gone.
    """
    if os.getuid() != 0:
        return Owner(os.getuid(), os.getgid())
    status = workspace.stat()
    return Owner(status.st_uid, status.st_gid or status.st_uid) if status.st_uid else Owner(uid, uid)


def needs_mapping(workspace: Path) -> bool:
    """Whether the workspace is root's, so that who runs its commands must be shown it as their own (`idmapped`).

    Raises:
        OSError: the workspace is gone.
    """
    return os.getuid() == 0 and workspace.stat().st_uid == 0


def maker_for(workspace: Path, uid: int = DEFAULT_UID) -> Owner | None:
    """Return to whom what we make in this workspace must be given, so that its commands may change it; None: no one."""
    return owner_for(workspace, uid) if os.getuid() == 0 and not needs_mapping(workspace) else None


def is_run_workspace(workspace: Path, fabric: Path | None) -> bool:
    """Whether fabric has made this workspace in its own folder, as `runs/UUID/workspace`. Looks at names only."""
    if fabric is None or not fabric.is_absolute() or ".." in (*workspace.parts, *fabric.parts):
        return False
    inside = "/".join(workspace.parts[len(fabric.parts) :])
    return workspace.is_relative_to(fabric) and _RUN_WORKSPACE.fullmatch(inside) is not None


def may_give(workspace: Path, fabric: Path | None) -> bool:
    """Whether `give` may be asked: the workspace is a run's own, in fabric's own folder."""
    return fabric is not None and is_run_workspace(workspace.resolve(), fabric.resolve())


def give(workspace: Path, owner: Owner, *, fabric: Path | None) -> None:
    """Make a workspace of root's in fabric's own folder the owner's, with whatever of root's is in it; only for root.

    For boxes that cannot show root's files as another user's (`idmapped`). No other folder is ever given away: there
    would be no way back. No link is followed, on the way there neither, no other file system entered, and a file with
    another name somewhere is left: that name may lie outside.

    Raises:
        ConfigError: it is root's, and not a workspace in fabric's own folder. Nothing has been changed then.
    """
    if not needs_mapping(workspace):
        return
    workspace, fabric = workspace.resolve(), fabric and fabric.resolve()
    if fabric is None or not is_run_workspace(workspace, fabric):
        raise ConfigError("a box of this kind cannot work for root in a project of root's", hint=idmapped.HINT)
    at = os.open(fabric, _FOLDER)
    try:
        for name in workspace.parts[len(fabric.parts) :]:
            inner = os.open(name, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        _give_below(at, owner)
        os.fchown(at, *owner)
    finally:
        os.close(at)


def _give_below(top: int, owner: Owner) -> None:
    device = os.fstat(top).st_dev
    for _, folders, files, at in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
                if status.st_dev != device:
                    if name in folders:
                        folders.remove(name)
                elif status.st_uid == 0 and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
                    os.chown(name, *owner, dir_fd=at, follow_symlinks=False)


class Launch:
    """How bubblewrap is started: directly, or for root by the step that gives root up."""

    def __init__(self, owner: Owner) -> None:
        """Prepare a start as this user."""
        self._owner = owner
        self._staged: list[str] = []

    def source(self, path: Path, *, as_own: bool = False) -> Path:
        """Return where bubblewrap will find this file; with `as_own` what root has there is the user's."""
        if os.getuid() != 0:
            return path
        staged = f"{'+' if as_own else '='}{path}"
        if staged not in self._staged:
            self._staged.append(staged)
        return Path(dropping_helper.STAGE) / str(self._staged.index(staged))

    def command(self, bubblewrap: list[str]) -> list[str]:
        """Return the command that starts bubblewrap with what it is told."""
        if os.getuid() != 0:
            return bubblewrap
        return [
            *(str(interpreter()), "-I", "-S", "-c", _BOOT, _PACKAGES, str(self._owner.uid), str(self._owner.gid)),
            *self._staged,
            *("--then", *bubblewrap),
        ]
