"""What a box of level A sees of the files: the system read-only, the workspace, and private places in memory."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from agent_fabric.infrastructure.sandbox.mounts_toolchains import SYSTEM

HOME = "/home/fabric"
"""The home folder inside a box: empty at first, in memory, gone with the box."""
OWN = "/run/fabric"
"""Where a box keeps its own files."""

_ETC_FOLDERS = (
    "alternatives",
    "ssl/certs",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "fonts",
    "java-17-openjdk",
    "maven",
)
_ETC_FILES = (
    "ld.so.cache",
    "localtime",
    "timezone",
    "os-release",
    "mime.types",
    "protocols",
    "services",
    "ssl/openssl.cnf",
)
"""What programs need of /etc. Users, hosts and git's settings are made for the box."""
_MEGABYTE = 1 << 20
_SHARED_MEMORY_MB = 256


class Source(Protocol):
    """Where the process that builds the box finds a file of ours."""

    def __call__(self, path: Path, *, as_own: bool = False) -> Path:
        """Return the place; with `as_own` what root has there is seen as the box's user's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one box sees."""

    workspace: Path
    """Seen at its own place, with nothing else of the folders around it."""
    mapped: bool = False
    """Whether it is root's, to be seen as the box's user's."""
    toolchains: Sequence[Path] = ()
    covers: Sequence[tuple[Path, bool]] = ()
    """Paths in the workspace that are mounted over themselves, and whether they may be written."""
    hidden: Sequence[Path] = ()
    """Folders in the workspace that look empty."""
    closed: Sequence[Path] = ()
    """Folders in what is shown of the system and of toolchains that look empty, but for the workspace."""
    masked: Sequence[Path] = ()
    """Sockets in the workspace that are none in the box."""
    sockets: Sequence[tuple[Path, str]] = ()
    """Unix sockets of ours, and where the box sees them."""
    private_mb: int
    """How much fits into /tmp and into the home folder."""


def mount_arguments(view: View, source: Source) -> list[str]:
    """Return what bubblewrap is told about files, but for those that are made for the box."""
    workspace = source(view.workspace, as_own=view.mapped)
    return [
        *_system(),
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *("--dev", "/dev", *_memory("/dev/shm", _SHARED_MEMORY_MB, "1777"), "--remount-ro", "/dev"),  # noqa: S108
        *_memory("/tmp", view.private_mb, "1777"),  # noqa: S108 - the box's own
        *("--dir", "/var", "--symlink", "../tmp", "/var/tmp"),  # noqa: S108 - the box's own
        *_memory(HOME, view.private_mb, "0700"),
        *_binds("--ro-bind", view.toolchains, source),
        *(part for path in view.closed for part in _emptied(path)),
        *("--bind", str(workspace), str(view.workspace)),
        *(part for path, writable in view.covers for part in _cover(view.workspace, path, writable, workspace)),
        *(part for path in view.masked for part in ("--ro-bind", "/dev/null", str(path))),
        *(part for path in view.hidden for part in _emptied(path)),
        *(part for path in (*view.closed, *view.hidden) for part in ("--remount-ro", str(path))),
        *(part for path, place in view.sockets for part in ("--bind", str(source(path, as_own=True)), place)),
    ]


def made_files(uid: int, gid: int, identity: str) -> dict[str, bytes]:
    """Return the files that are made for a box; `identity` is what git knows of the user."""
    texts = {
        "/etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nfabric:x:{uid}:{gid}:fabric:{HOME}:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "/etc/group": f"root:x:0:\nfabric:x:{gid}:\nnogroup:x:65534:\n",
        "/etc/hosts": "127.0.0.1 localhost box\n::1 localhost\n",
        "/etc/hostname": "box\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        "/etc/gitconfig": f"[safe]\n\tdirectory = *\n{identity}",
    }
    return _copied() | {path: text.encode() for path, text in texts.items()}


@cache
def _copied() -> dict[str, bytes]:
    """Return the system's own files that a box gets a copy of: a mount for each would take longer."""
    found: dict[str, bytes] = {}
    for name in _ETC_FILES:
        path = Path("/etc") / name
        with suppress(OSError):
            found[str(path)] = path.read_bytes()
    return found


def _system() -> list[str]:
    arguments: list[str] = []
    for place in SYSTEM:
        path = Path(place)
        if path.is_symlink():
            arguments += ("--symlink", str(path.readlink()), place)
        elif path.is_dir():
            arguments += ("--ro-bind", place, place)
    for name in _ETC_FOLDERS:
        path = Path("/etc") / name
        if path.is_dir():
            arguments += ("--ro-bind", str(path), str(path))
    return arguments


def _memory(place: str, size_mb: int, mode: str) -> tuple[str, ...]:
    return ("--perms", mode, "--size", str(size_mb * _MEGABYTE), "--tmpfs", place)


def _emptied(path: Path) -> tuple[str, ...]:
    return ("--perms", "0555", "--size", "4096", "--tmpfs", str(path))


def _binds(option: str, paths: Iterable[Path], source: Source) -> list[str]:
    return [part for path in paths for part in (option, str(source(path)), str(path))]


def _cover(workspace: Path, path: Path, writable: bool, source: Path) -> tuple[str, ...]:
    inside = f"{source}{str(path).removeprefix(str(workspace))}"
    return ("--bind" if writable else "--ro-bind", inside, str(path))
