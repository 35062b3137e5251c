"""One aiohttp session for each event loop, which may not leave it; why a connection failed, in plain words."""

import asyncio
import ssl
from collections.abc import Callable
from weakref import WeakKeyDictionary

import aiohttp

from agent_fabric.infrastructure.web.connection_errors import connect_error, connection_error


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


def reason_of(problem: BaseException) -> str:
    """Return what went wrong with a connection, in a few words. A proxy that failed is named."""
    if isinstance(problem, aiohttp.ClientProxyConnectionError):
        return f"the proxy {problem.host}:{problem.port}: {_words(problem)}"
    return _words(problem)


def tls_failure(problem: aiohttp.ClientConnectorSSLError, address: str) -> str:
    """Return a sentence about a TLS connection that failed before any certificate was looked at."""
    reason = _words(problem)
    return f"{reason[:1].upper()}{reason[1:]}: {address}"


def _words(problem: BaseException) -> str:
    match problem:
        case aiohttp.ClientConnectorError():
            return connect_error(problem.os_error)
        case aiohttp.SocketTimeoutError():
            return "nothing came for too long"
        case aiohttp.ServerDisconnectedError():
            return connect_error(ConnectionResetError())
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case _:
            return connection_error(problem)


CONNECT_TIMEOUT_S = 5.0


async def fetch_small(url: str, *, timeout_s: float, max_bytes: int) -> bytes:
    """Return what lies at an address. No one is sent on to another one, and no proxy is asked.

    Raises:
        OSError: it cannot be had within the time, or is larger than it may be.
    """
    try:
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(), force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S),
                headers={"Accept": "application/json", "User-Agent": "agent-fabric"},
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            ) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            data, cut = await read_up_to(response, max_bytes)
    except TimeoutError:
        raise OSError(f"{url} did not answer within {timeout_s:g} s") from None
    except (aiohttp.ClientError, ValueError) as problem:
        raise OSError(f"{url} cannot be fetched: {problem}") from None
    if response.status != 200:
        raise OSError(f"{url} answered with status {response.status}")
    if cut:
        raise OSError(f"{url} is larger than {max_bytes} bytes")
    return data
