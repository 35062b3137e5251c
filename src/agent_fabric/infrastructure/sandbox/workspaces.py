"""Which folders can be a workspace, and the files of one as every box handles them."""

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox.beneath import Beneath

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/etc", "/boot", "/dev", "/proc"),
    *("/sys", "/run", "/var/run", "/var/lib", "/var/log", "/var/cache", "/var/spool", "/var/mail", "/lost+found"),
    *("/System", "/Library", "/Applications", "/private/etc", "/private/var/db"),
)
"""Nothing in these is anyone's project."""
_NOT_THEMSELVES = frozenset(
    (
        *("/", "/home", "/root", "/media", "/mnt", "/opt", "/srv", "/tmp", "/var", "/var/tmp", "/var/opt"),  # noqa: S108 - names
        *("/Users", "/Volumes", "/private", "/private/tmp", "/private/var", "/private/var/tmp"),
    )
)
"""What lies in these may be a project, but not they themselves."""
_HOMES = ("/home", "/Users")
"""What lies directly in these is a person's home."""
_IN_MEMORY = ("/dev/shm", "/run/user")  # noqa: S108 - names
"""What lies in these is someone's, although they are in folders of the system."""
_OWN = "/.fabric/runs/"
"""A workspace that we made ourselves, wherever the store is, such as below `/var/lib`."""


def require_workspace(folder: Path) -> Path:
    """Return a folder without links on the way to it.

    Refused is one that is the system's, or that has the system's or a person's whole home in it.

    Raises:
        ConfigError: it cannot be a workspace.
    """
    path = os.path.realpath(folder)
    if not may_be_workspace(path, homes=(_real_path(os.path.expanduser("~")), "/root")):  # noqa: PTH111 - as below
        raise ConfigError(
            f"{path!r} cannot be a workspace: it belongs to the system, or is a whole home folder",
            hint="Work in a project's own folder.",
        )
    return Path(path)


@cache
def _real_path(home: str) -> str:
    """Return a home without links on the way to it, looked up once: it is the same for every run."""
    return os.path.realpath(home)


def may_be_workspace(path: str, *, homes: Iterable[str]) -> bool:
    """Whether commands may be let loose on this folder: an absolute path without links. Looks at names only."""
    if not path.startswith("/") or path in _NOT_THEMSELVES or os.path.dirname(path) in _HOMES:  # noqa: PTH120 - text
        return False
    if _OWN in path or any(path != folder and _is_within(path, folder) for folder in _IN_MEMORY):
        return True
    if any(_is_within(path, system) or _is_within(system, path) for system in _SYSTEM):
        return False
    return not any(_is_within(home, path) for home in homes)


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


class WorkspaceFiles:
    """The part of a Sandbox that reads, writes and lists: in this process, on a thread, never outside the workspace."""

    @property
    def _files(self) -> Beneath:
        """The workspace, with what of it may be seen and written."""
        raise TypeError(f"{type(self).__name__} does not say which files are its own")

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        return await asyncio.to_thread(self._files.read_file, path, max_bytes)

    async def write_file(self, path: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._files.write_file, path, data)

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        return await asyncio.to_thread(self._files.list_files, path, max_entries)


# Where we ourselves are installed, if that is in a workspace: what a command changes there, we would execute.
#
# A project's own virtual environment is a usual place for us. The next start, or the next module that is loaded, would
# run what a run has put there, outside its box.
_HINT = "Install agent-fabric outside the project: `pipx install agent-fabric` or `uv tool install agent-fabric`."


def own_program(workspace: Path) -> tuple[PurePath, ...]:
    """Return the folders from which we run, as paths from the workspace on, none inside another; mostly none.

    Raises:
        ConfigError: they cannot be kept from commands: the workspace is one of them, or a link leads to one.
    """
    return _within(workspace, (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]))


def require_elsewhere(workspace: Path) -> None:
    """Refuse a workspace in which we are installed, where nothing in it can be made read-only.

    Raises:
        ConfigError: we are.
    """
    if found := own_program(workspace):
        raise ConfigError(
            f"agent-fabric itself is installed in the project, in {found[0]}, and commands could change it", hint=_HINT
        )


def covers_of(workspace: Path, names: tuple[PurePath, ...]) -> Iterator[tuple[Path, bool]]:
    """Yield what to mount over itself, outer ones first, and whether it may be written: see `ProtectedPaths.cover`."""
    for name in names:
        yield from ((workspace / around, True) for around in reversed(name.parents[:-1]))
        yield workspace / name, False


def _within(workspace: Path, places: tuple[Path, ...]) -> tuple[PurePath, ...]:
    found: list[PurePath] = []
    for top in (workspace.absolute(), workspace.resolve()):
        names = {place.relative_to(top) for place in places if place.is_relative_to(top)}
        for name in sorted(names, key=lambda one: len(one.parts)):
            way = [top / part for part in (name, *name.parents[:-1])]
            if not name.parts or any(part.is_symlink() for part in way):
                raise ConfigError(
                    f"agent-fabric itself is installed in the project, in {top / name}, where it cannot be protected",
                    hint=_HINT,
                )
            if not any(name.is_relative_to(outer) for outer in found):
                found.append(name)
    return tuple(found)
