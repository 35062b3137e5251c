"""One aiohttp session for each event loop: a session may not leave the loop that opened it."""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

import aiohttp


class Sessions:
    """Opens a session when a loop first asks for it."""

    def __init__(self, open_session: Callable[[], aiohttp.ClientSession]) -> None:
        self._open_session = open_session
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()

    def current(self) -> aiohttp.ClientSession:
        """Return the session of the running loop."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = self._open_session()
        return session

    async def aclose(self) -> None:
        """Close the session of the running loop and all its connections."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()


async def read_up_to(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    """Read a body piece by piece, decompressed, and stop at the limit; tell whether there was more.

    However much a few compressed bytes stand for, only what was asked for is ever unpacked.
    """
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > max_bytes:
            return bytes(data[:max_bytes]), True
    return bytes(data), False
