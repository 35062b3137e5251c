"""The step between root and a box: a private view of the files, then another user, then bubblewrap.

It is started by a bare interpreter (`python -I -S`), so it imports only what is quick to load: not `os` and `stat`, but
what lies below them. Arguments: user, group, then each path that the user must reach, behind `+` if what is root's in
it is to be the user's there, behind `=` otherwise; and after `--then` the program to become, which finds the paths as
`/tmp/0`, `/tmp/1` and so on.
"""

import _stat
import posix
import sys

from agent_fabric.infrastructure.sandbox.idmapped import Mapping, c_library, encode_path, own_mounts

STAGE = "/tmp"  # noqa: S108 - covered by a private file system
"""Where the paths are laid out: a folder that every system has and that nothing of a box comes from."""

_MAPPED = "+"
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC = 2, 4, 4096, 16384


def main() -> None:
    """Do it, or say on stderr what failed."""
    then = sys.argv.index("--then")
    uid, gid = int(sys.argv[1]), int(sys.argv[2])
    try:
        _lay_out(sys.argv[3:then], uid, gid)
        posix.setgroups([])
        posix.setresgid(gid, gid, gid)
        posix.setresuid(uid, uid, uid)
        posix.execv(sys.argv[then + 1], sys.argv[then + 1 :])
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        sys.exit(1)


def _lay_out(paths: list[str], uid: int, gid: int) -> None:
    """Show each path as a number below the stage, in a view of the files that is only this process's own."""
    mapping = Mapping(uid, gid) if any(path.startswith(_MAPPED) for path in paths) else None
    own_mounts()
    opened = [posix.open(path[1:], posix.O_PATH | posix.O_CLOEXEC) for path in paths]
    _mount("fabric", STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    for number, (path, file) in enumerate(zip(paths, opened, strict=True)):
        place = f"{STAGE}/{number}"
        if _stat.S_ISDIR(posix.fstat(file).st_mode):
            posix.mkdir(place)
        else:
            posix.close(posix.open(place, posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC))
        if mapping is not None and path.startswith(_MAPPED):
            mapping.show(file, place)
        else:
            _mount(f"/proc/self/fd/{file}", place, None, _MS_BIND | _MS_REC)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if one is None else encode_path(one) for one in (source, target, kind, options)]
    try:
        c_library("mount", *texts[:3], flags, texts[3])
    except OSError as error:
        raise OSError(error.errno, f"mounting {target}: {error.strerror}") from None
