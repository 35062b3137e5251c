"""Reaches servers over HTTP: Streamable HTTP, and SSE as it was before.

The SDK follows redirects within the server's own origin only. A body beyond the limit, or one that is compressed (which
could grow without end), breaks the request.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agent_fabric.infrastructure.tools.mcp.stdio import MAX_MESSAGE_BYTES, Window

_CONNECT_TIMEOUT_S: Final = 15.0
_STREAM_TIMEOUT_S: Final = 900.0
"""How long an open stream may be silent; each call has a time-out of its own."""


def streamable_transport(url: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Any]:
    """Return the transport for a server at an address."""
    return _streamable(url, headers)


def sse_transport(url: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Any]:
    """Return the transport for a server that still speaks the older kind of HTTP."""
    return sse_client(
        url,
        headers=dict(headers),
        timeout=_CONNECT_TIMEOUT_S,
        sse_read_timeout=_STREAM_TIMEOUT_S,
        httpx_client_factory=_client,
    )


@asynccontextmanager
async def _streamable(url: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    timeout = httpx2.Timeout(_CONNECT_TIMEOUT_S, read=_STREAM_TIMEOUT_S)
    async with (
        _client(dict(headers), timeout) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


def _client(
    headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **(headers or {})},
        timeout=timeout,
        auth=auth,
        event_hooks={"response": [_cap]},
    )


async def _cap(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    endless = "text/event-stream" in response.headers.get("content-type", "")
    response.stream = _PacedBody(response.stream) if endless else _CappedBody(response.stream)


class _CappedBody(httpx2.AsyncByteStream):
    """A body that fails when it gets too long."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE_BYTES
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.RemoteProtocolError(f"the answer is longer than {MAX_MESSAGE_BYTES // 2**20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _PacedBody(httpx2.AsyncByteStream):
    """A stream of events that fails when they come too fast; how long each may be is for the SDK to see to."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        window = Window()
        async for chunk in self._inner:
            window.messages += chunk.count(b"data:")
            if window.flooded(len(chunk)):
                raise httpx2.RemoteProtocolError("the server floods us with messages")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
