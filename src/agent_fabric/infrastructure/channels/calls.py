"""Requests to platforms over HTTP, and what is known when one fails."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from agent_fabric.application.ports.channels import ChannelState, ChannelStatus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import AnswerLost, NotReached
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.infrastructure.web.sessions import read_up_to

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
MAX_ANSWER: Final = 16 * 1024 * 1024
MAX_WAIT_S: Final = 86_400.0
BACK_OFF_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError, ValueError)
"""What a request may raise. Their texts may name addresses, which may contain secrets: only their kinds are shown."""

_log = logging.getLogger(__name__)


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

    def __init__(self, timeout_s: float = REQUEST_TIMEOUT_S, *, keeps: bool = False) -> None:
        """Connect to nothing yet; with `keeps`, connections are used again after all."""
        self._timeout_s = timeout_s
        self._keeps = keeps
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=not self._keeps))
        return self._session

    async def __call__(
        self, method: str, url: str, headers: Mapping[str, str], *, timeout_s: float | None = None, **what: Any
    ) -> PlatformAnswer:
        """Make a request; `what` is `json` or `data`, as aiohttp takes them. Raises FAILURES."""
        total = timeout_s or (
            self._timeout_s if "json" in what or not what else 2 * self._timeout_s
        )  # files take longer
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_TIMEOUT_S)
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

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class Unavailable(Exception):
    """A platform could not be asked, or ended the connection. Its text names no address, which may contain a secret."""


class PlatformLink:
    """How an account of a platform stands, the requests to it, and the pauses after failures."""

    def __init__(
        self,
        platform: str,
        status: ChannelStatus,
        clock: Clock,
        *,
        back_off_s: tuple[float, ...] = BACK_OFF_S,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Connect to nothing yet; the last of the pauses is repeated."""
        self.platform = platform
        self.status = status
        self.clock = clock
        self.call = PlatformCalls(timeout_s)
        self._back_off_s = back_off_s

    async def keep_on(
        self, listen: Callable[[], Awaitable[None]], after_failure: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Listen again and again until cancelled; after a failure, with a pause that grows."""
        failures = 0
        while True:
            try:
                await listen()
                failures = 0
            except (Unavailable, StoreUnavailable) as problem:
                self.note_waiting(str(problem))
                if after_failure is not None:
                    await after_failure()
                await self.clock.sleep(self._back_off_s[min(failures, len(self._back_off_s) - 1)])
                failures += 1

    def note_heard(self) -> None:
        """The platform has answered."""
        self.status.state, self.status.problem, self.status.hint = ChannelState.CONNECTED, "", ""
        self.status.heard_at = self.clock.now()

    def note_waiting(self, problem: str) -> None:
        """It has not, and is asked again."""
        if problem != self.status.problem:
            _log.warning("%s: %s", self.platform, problem)
        self.status.state, self.status.problem = ChannelState.WAITING, problem

    def no_answer(self, problem: BaseException) -> Unavailable:
        """Return what a request that failed means for the channel."""
        return Unavailable(f"{self.platform} does not answer: {type(problem).__name__}")

    def failure(self, problem: BaseException) -> NotReached | AnswerLost:
        """Return what is known about a part whose request failed: whether it can have arrived."""
        if isinstance(problem, FabricError):  # the token cannot be found, so nothing was sent
            return NotReached(problem.message)
        if isinstance(problem, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return NotReached(f"{self.platform} cannot be reached: {type(problem).__name__}")
        return AnswerLost(f"{self.platform} did not answer: {type(problem).__name__}")

    async def answer_press(self, answering: Awaitable[object]) -> None:
        """Await the answer to a pressed button; the button works without it."""
        try:
            await answering
        except (*FAILURES, FabricError) as problem:
            _log.info("A press of a button was not answered: %s", type(problem).__name__)


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


def is_host_of(url: str, base: str, *others: str) -> bool:
    """Tell whether an address is at the same host as another one, over the same scheme, or at one of some hosts."""
    try:
        wanted, own = urlsplit(url), urlsplit(base)
    except ValueError:
        return False
    if wanted.username is not None or wanted.password is not None:
        return False
    if (wanted.scheme, wanted.netloc) == (own.scheme, own.netloc):
        return True
    return wanted.scheme == "https" and wanted.netloc in others
