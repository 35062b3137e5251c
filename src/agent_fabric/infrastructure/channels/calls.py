"""Requests to platforms over HTTP, and what is known when one fails."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import aiohttp

from agent_fabric.domain.channels.deliveries import AnswerLost, NotReached
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.web.sessions import read_up_to

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
MAX_ANSWER: Final = 16 * 1024 * 1024
MAX_WAIT_S: Final = 86_400.0
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

    A kept one may have been closed by the other side in the same moment, and then no one knows what arrived.
    """

    def __init__(self, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """Where connections are made."""
        self._session = self._session or aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        return self._session

    async def __call__(self, method: str, url: str, headers: Mapping[str, str], **what: Any) -> PlatformAnswer:
        """Make a request; `what` is `json` or `data`, as aiohttp takes them. Raises FAILURES."""
        timeout = aiohttp.ClientTimeout(total=self._time_for(what), sock_connect=CONNECT_TIMEOUT_S)
        async with self.session.request(
            method, url, headers=headers, timeout=timeout, allow_redirects=False, **what
        ) as response:
            data, _ = await read_up_to(response, MAX_ANSWER)
            try:
                body = json.loads(data) if data else None
            except ValueError:
                body = None
            return PlatformAnswer(response.status, {key.lower(): text for key, text in response.headers.items()}, body)

    async def download(self, url: str, headers: Mapping[str, str], *, max_bytes: int) -> bytes | FileProblem:
        """Return a file. It is stopped when it gets too large, whatever the platform said before."""
        timeout = aiohttp.ClientTimeout(total=2 * self._timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with self.session.get(url, headers=headers, timeout=timeout, allow_redirects=False) as response:
                if response.status != 200:
                    may_pass = response.status == 429 or response.status >= 500
                    return FileProblem(f"the platform answered {response.status}", may_pass=may_pass)
                data, is_more = await read_up_to(response, max_bytes)
                wanted = response.content_length
        except FAILURES as problem:  # its text may name the address, which may contain a token
            return FileProblem(f"the platform did not answer ({type(problem).__name__})", may_pass=True)
        if is_more:
            return FileProblem("it is too large")
        if wanted is not None and len(data) < wanted and "content-encoding" not in response.headers:
            return FileProblem("it came only in part", may_pass=True)
        return data

    def _time_for(self, what: Mapping[str, Any]) -> float:
        """Return how long a request may take; one that carries a file takes longer."""
        return self._timeout_s if "json" in what or not what else 2 * self._timeout_s

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


def retry_after_s(headers: Mapping[str, str], otherwise: float = 5.0) -> float:
    """Return how long a platform wants us to wait, as its header says; what is no number of seconds counts as none."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return otherwise
    return seconds if 0 <= seconds <= MAX_WAIT_S else otherwise


async def token_of(find: Callable[[], Awaitable[str]]) -> str | FileProblem:
    """Return a token, or why a file that needs it cannot be had."""
    try:
        return await find()
    except FabricError as problem:
        return FileProblem(problem.message)
