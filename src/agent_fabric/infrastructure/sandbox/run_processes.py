"""Tells processes of runs from those of people.

Every command at level C and every tool server is started with a lowered hard limit for file locks (`RLIMIT_LOCKS`).
Linux does not enforce this limit, children inherit it, and no process can raise it again without `CAP_SYS_RESOURCE`:
not by another environment, another session, or a daemon. Boxes of other levels have walls instead.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final

from agent_fabric.domain.identity.principals import UNKNOWN_RUN
from agent_fabric.infrastructure.sandbox.process_environments import RUN

MARK: Final = 1_000_003
"""The hard limit of a run's processes; a process can only lower it further."""
SHELL_MARK: Final = f"ulimit -x {MARK} 2>/dev/null || ulimit -w {MARK} 2>/dev/null || :".encode()
"""Sets the limit in a shell: bash calls it `-x`, dash `-w`."""
_RLIMIT_LOCKS: Final = 10
_LINUX: Final = sys.platform == "linux"
_MAX_ANCESTORS: Final = 100
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN: Final = "0A"

Endpoint = tuple[str, int]
"""Address and port of one end of a connection."""


def mark_process(pid: int) -> None:
    """Mark a process that was just started for runs; its children inherit the mark."""
    if not _LINUX:
        return
    import resource  # noqa: PLC0415 - only where it is needed

    with suppress(ProcessLookupError, PermissionError):  # it has ended, or is another user's already
        resource.prlimit(pid, _RLIMIT_LOCKS, (MARK, MARK))


def acting_run() -> str:
    """Return the run that this process works for; empty: none. The variable only names it, and decides nothing.

    Where the mark does not exist (macOS), the variable is all there is: it stops mistakes, not malice.
    """
    named = os.environ.get(RUN, "")
    if not _LINUX:
        return named
    return (named or UNKNOWN_RUN) if works_for_run(os.getpid()) else ""


def works_for_run(pid: int) -> bool:
    """Tell whether a process, or one above it, has the mark."""
    return any(_is_marked(each) for each in _with_ancestors(pid))


def run_at_other_end(client: Endpoint | None, server: Endpoint | None) -> bool:
    """Tell whether a connection was opened by a process of a run on this machine.

    True too if it came from a program of this user that is gone: nothing can be said about that one any more. A
    connection from another machine, user or container is judged by its credential alone.
    """
    if not _LINUX:
        return False
    if client is None or server is None:
        return True  # reset before its address was known
    found = _socket(client, server)
    if found is None:
        return ip_address(client[0].partition("%")[0]).is_loopback and _listens(server[1])
    uid, inode = found
    if not inode:  # its process has closed it; the kernel no longer knows whose it was
        return True
    if uid != os.getuid():
        return False
    owners = list(_owners(inode))
    # Looked at once more afterwards: one that ended meanwhile would look like one without the mark.
    return not owners or any(works_for_run(pid) or not _has_open(str(pid), _link_to(inode)) for pid in owners)


def _is_marked(pid: int) -> bool:
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
            if line.startswith("Max file locks"):
                hard = line.split()[4]
                return hard != "unlimited" and int(hard) <= MARK
    return False


def _with_ancestors(pid: int) -> Iterator[int]:
    for _ in range(_MAX_ANCESTORS):
        if pid <= 0:
            return
        yield pid
        try:
            # The name, in brackets, may hold anything.
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def _socket(client: Endpoint, server: Endpoint) -> tuple[int, int] | None:
    """Return the user and the inode of the socket at the client's end, if that is on this machine."""
    wanted = {(_hex(client, mapped=mapped), _hex(server, mapped=mapped)) for mapped in (False, True)}
    for parts in _connections():
        if (parts[1], parts[2]) in wanted:
            return int(parts[7]), int(parts[9])
    return None


def _listens(port: int) -> bool:
    """Tell whether the kernel's tables show a socket that listens: if not even that, they show nothing at all."""
    return any(parts[3] == _LISTEN and parts[1].endswith(f":{port:04X}") for parts in _connections())


def _connections() -> Iterator[list[str]]:
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                parts = line.split()
                if len(parts) > 9:
                    yield parts


def _hex(end: Endpoint, *, mapped: bool) -> str:
    """Return an end as the kernel's tables write it: words of 32 bits, each in this machine's order."""
    address = ip_address(end[0].partition("%")[0])
    if mapped and address.version == 4:
        address = IPv6Address(f"::ffff:{address}")
    packed = address.packed
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{end[1]:04X}"


def _link_to(inode: int) -> str:
    return f"socket:[{inode}]"


def _owners(inode: int) -> Iterator[int]:
    wanted = _link_to(inode)
    for name in os.listdir("/proc"):  # noqa: PTH208 - a path object per process costs
        if name.isdigit() and _has_open(name, wanted):
            yield int(name)


def _has_open(pid: str, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # ended meanwhile, or another user's
        for number in os.listdir(folder):  # noqa: PTH208 - as above
            with suppress(OSError):
                if os.readlink(f"{folder}/{number}") == wanted:  # noqa: PTH115 - as above
                    return True
    return False
