"""Requests to platforms over HTTP, and what is known when one fails."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import aiohttp

from agent_fabric.domain.channels.deliveries import AnswerLost, NotReached
from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.web.sessions import read_up_to

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
MAX_ANSWER: Final = 16 * 1024 * 1024
FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError, ValueError)
"""What a request may raise. Their texts may name addresses, which may contain secrets: only their kinds are shown."""


class PlatformAnswer(NamedTuple):
    """What a platform answered."""

    status: int
    headers: Mapping[str, str]
    body: Any
    """As JSON; None: it is none."""


class PlatformCalls:
    """Makes requests. Each has a connection of its own.

    A kept one may have been closed by the other side in the same moment, and then nobody knows what arrived.
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """Where connections are made."""
        self._session = self._session or aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        return self._session

    async def __call__(self, method: str, url: str, headers: Mapping[str, str], **what: Any) -> PlatformAnswer:
        """Make a request; `what` is `json` or `data`, as aiohttp takes them. Raises FAILURES."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
        async with self.session.request(
            method, url, headers=headers, timeout=timeout, allow_redirects=False, **what
        ) as response:
            data, _ = await read_up_to(response, MAX_ANSWER)
            try:
                body = json.loads(data) if data else None
            except ValueError:
                body = None
            return PlatformAnswer(response.status, {key.lower(): text for key, text in response.headers.items()}, body)

    async def download(self, url: str, headers: Mapping[str, str], *, max_bytes: int) -> bytes:
        """Return a file.

        Raises:
            ValueError: it is too large, or not there; and the other FAILURES.
        """
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
        async with self.session.get(url, headers=headers, timeout=timeout, allow_redirects=False) as response:
            if response.status != 200:
                raise ValueError("the file is not there")
            data, is_more = await read_up_to(response, max_bytes)
            if is_more:
                raise ValueError("the file is too large")
            return data

    async def aclose(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def failure_of(problem: BaseException, platform: str) -> NotReached | AnswerLost:
    """Return what is known about a request that failed: whether it can have arrived."""
    if isinstance(problem, FabricError):  # the token cannot be found, so nothing was sent
        return NotReached(problem.message)
    if isinstance(problem, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotReached(f"{platform} cannot be reached: {type(problem).__name__}")
    return AnswerLost(f"{platform} did not answer: {type(problem).__name__}")
