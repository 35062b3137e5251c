"""HTTP to a model server through aiohttp: with TLS, through a proxy, or at an address of an unusual kind."""

import io
from collections.abc import AsyncIterator, Mapping
from ssl import SSLContext

import aiohttp

from agent_fabric.infrastructure.models.http_answer import (
    BrokenOff,
    HttpFailure,
    NoConnection,
    NoTls,
    Silence,
    Untrusted,
    Unusable,
    join_pieces,
)
from agent_fabric.infrastructure.web.sessions import reason_of, tls_failure

_LARGE = 1_000_000
"""aiohttp wants larger bodies as a stream, so that sending them does not block the loop."""


def open_session() -> aiohttp.ClientSession:
    """Return a session for all servers."""
    # How many runs ask at once is decided elsewhere; a second limit here would only hide waiting.
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=True,
    )


class AiohttpRequests:
    """Requests to one server."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        *,
        connect_s: float,
        proxy: str | None,
        tls: SSLContext | bool,
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._connect_s = connect_s
        self._proxy = proxy
        self._tls = tls

    async def ask(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str], *, silent_s: float | None
    ) -> "AiohttpAnswer":
        try:
            response = await self._session.request(
                method,
                url,
                data=data if data is None or len(data) < _LARGE else io.BytesIO(data),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_s, sock_read=silent_s),
                proxy=self._proxy,
                ssl=self._tls,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, ValueError, OSError) as problem:
            raise self.failure(problem) from None
        return AiohttpAnswer(response, self)

    def failure(self, problem: Exception) -> HttpFailure:
        """Return what went wrong."""
        match problem:
            case aiohttp.ClientConnectorSSLError():
                return NoTls(tls_failure(problem, self._base_url))
            case aiohttp.ClientConnectorCertificateError():
                return Untrusted(reason_of(problem))
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                return NoConnection(reason_of(problem))
            case aiohttp.ServerTimeoutError():
                return Silence(reason_of(problem))
            case aiohttp.ClientPayloadError() | aiohttp.ClientOSError() | aiohttp.ServerDisconnectedError():
                return BrokenOff(reason_of(problem))
            case _:
                return Unusable(reason_of(problem))


class AiohttpAnswer:
    """HttpAnswer of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse, requests: AiohttpRequests) -> None:
        self._response = response
        self._requests = requests
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.size = None if "content-encoding" in response.headers else response.content_length

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, ValueError, OSError) as problem:
            raise self._requests.failure(problem) from None

    async def read(self, most_bytes: int) -> bytes | None:
        if (self.size or 0) > most_bytes:
            return None
        return await join_pieces(self.pieces(), most_bytes)

    def release(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
