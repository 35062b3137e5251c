"""Which folders a run may be let loose on: projects, and nothing that a whole machine or person depends on."""

import os
import stat
from pathlib import Path

from agent_fabric.domain.errors import ConfigError

_SYSTEM = frozenset(
    map(
        Path,
        (
            *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr"),
            *("/Applications", "/Library", "/System", "/private/etc"),
        ),
    )
)
"""Folders that belong to the system, with everything in them."""
_GATHERINGS = frozenset(
    map(
        Path,
        (
            *("/home", "/media", "/mnt", "/opt", "/private", "/private/tmp", "/private/var", "/root", "/run", "/srv"),
            *("/tmp", "/Users", "/var", "/var/lib", "/var/log", "/var/tmp", "/Volumes"),  # noqa: S108 - refused
        ),
    )
)
"""Folders that hold what belongs to many; a project may lie below."""
_PRIVATE = frozenset({".aws", ".config", ".docker", ".gnupg", ".kube", ".ssh"})
"""Folders of a home that no run should work in."""


def project_folder(path: Path, *, fabric_root: Path, home: Path | None = None) -> Path:
    """Return a folder as runs know it, without links on the way; refuse those that are no project.

    Raises:
        ConfigError: a run must not work there.
    """
    try:
        folder = path.resolve(strict=True)
        mode = folder.stat().st_mode
    except (OSError, RuntimeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ConfigError(f"The folder {path} cannot be opened: {reason}", hint="Change to one that exists.") from None
    if reason := _why_not(folder, mode, fabric_root.resolve(), (home or _home()).resolve()):
        raise ConfigError(
            f"A run cannot work in {folder}: {reason}",
            hint="Change to the folder of one project, or leave out --here: then the run gets a folder of its own.",
        )
    return folder


def _why_not(folder: Path, mode: int, fabric_root: Path, home: Path) -> str:
    ways = (folder, *folder.parents)
    if not stat.S_ISDIR(mode):
        return "it is not a folder"
    if folder == Path(folder.anchor):
        return "it is the whole machine"
    if folder == home:
        return "it is your home folder"
    if folder in home.parents or folder in _GATHERINGS:
        return "it holds what belongs to others"
    if not _SYSTEM.isdisjoint(ways):
        return "it belongs to the system"
    if home in ways and _PRIVATE & {name.casefold() for name in folder.relative_to(home).parts[:1]}:
        return "it holds keys and settings"
    if fabric_root in ways or ".fabric" in folder.parts:
        return "it belongs to agent-fabric itself"
    if folder in fabric_root.parents and fabric_root != folder / ".fabric":
        return f"the fabric folder {fabric_root} lies in it, and is not its .fabric"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return "you may not write there"
    return ""


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")
