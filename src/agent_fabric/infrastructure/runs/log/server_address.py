"""The file `.fabric/server`: where the server of a fabric folder listens.

The server writes it when it listens and removes it when it ends. The file of a killed server stays, so a reader also
checks that a process holds the server's lock.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.private_files import NotPrivate, read_private, write_private

FILE: Final = "server"


def record_server(root: Path, url: str) -> None:
    """Write down where the server listens. The caller holds the server's lock.

    Raises:
        ConfigError: the file cannot be written.
    """
    write_private(root / FILE, f"{url}\n".encode(), replace=True)


def forget_server(root: Path) -> None:
    """Remove the address. The caller holds the server's lock."""
    with suppress(OSError):  # what cannot be removed is not believed once the lock is free
        (root / FILE).unlink()


def recorded_server(root: Path) -> str | None:
    """Return the address in the file; None if there is none, or others may have written it."""
    try:
        content = read_private(root / FILE)
    except (NotPrivate, ConfigError):
        return None
    url = (content or b"").decode("ascii", "replace").strip()
    return url if url.startswith(("http://", "https://")) and url.isprintable() else None
