"""Where a provider's keys come from: a file, or an address."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 512 * 1024


def key_set_source(location: str, *, timeout_s: float) -> Callable[[], Awaitable[bytes]]:
    """Return what fetches the keys; it raises OSError when they cannot be had."""

    async def from_file() -> bytes:
        return await asyncio.to_thread(_read, Path(location))

    async def from_address() -> bytes:
        # Imported now: aiohttp takes a third of a second, which a server without a provider need not spend.
        from agent_fabric.infrastructure.web.small_documents import fetch_small  # noqa: PLC0415

        return await fetch_small(location, timeout_s=timeout_s, max_bytes=MAX_BYTES)

    return from_file if location.startswith("/") else from_address


def _read(path: Path) -> bytes:
    if not path.is_file():  # whoever opens a pipe would wait for ever
        raise OSError(f"{path} is not a file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"{path} is larger than {MAX_BYTES} bytes")
    return data
