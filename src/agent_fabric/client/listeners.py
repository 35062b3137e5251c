"""Whose programs listen at a port of this machine, as far as the kernel tells."""

from contextlib import suppress
from pathlib import Path
from typing import Final

_TABLES: Final = Path("/proc/net")
_LISTENS: Final = "0A"
_LOOPBACK: Final = "7F"
"""How an IPv4 address of this machine ends there, also as a part of an IPv6 address."""
_LOOPBACK_6: Final = f"{1 << 24:032X}"


def users_listening_at(port: int, tables: Path = _TABLES) -> frozenset[int]:
    """Return the numbers of the users whose programs a connection to this machine's own port may reach."""
    users: set[int] = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for row in (tables / name).read_text().splitlines()[1:]:
                words = row.split()
                address, _, at = words[1].partition(":")
                own = not address.strip("0") or address.endswith(_LOOPBACK) or address == _LOOPBACK_6
                if words[3] == _LISTENS and own and int(at, 16) == port:
                    users.add(int(words[7]))
    return frozenset(users)
