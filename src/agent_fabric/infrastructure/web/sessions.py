"""One aiohttp session for each event loop, which may not leave it; why a connection failed, in plain words."""

import asyncio
import errno
import os
import socket
import ssl
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


_MAX_CHARS = 200
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
"""What OpenSSL says when the first bytes of the other side are no TLS."""


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
    cause = problem.os_error if isinstance(problem, aiohttp.ClientConnectorError) else problem
    match cause:
        case ssl.SSLCertVerificationError() if cause.verify_message:
            return cause.verify_message
        case ssl.SSLError() if cause.reason in _NOT_TLS:
            return "this port does not speak TLS"
        case ssl.SSLError():
            return f"the TLS handshake failed ({(cause.reason or 'no reason given').replace('_', ' ').lower()})"
        case socket.gaierror():
            return "there is no host of this name"
        case aiohttp.SocketTimeoutError():
            return "nothing came for too long"
        case TimeoutError():
            return "no connection in time"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError(errno=None):
            return "the connection was closed"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case OSError() if isinstance(problem, aiohttp.ClientConnectorError):
            return os.strerror(errno.ECONNREFUSED)  # several addresses were tried, and each refused
    text = str(problem).strip()
    return text.splitlines()[0][:_MAX_CHARS] if text else type(problem).__name__


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
