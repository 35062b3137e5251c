"""A connection to NATS that is made again whenever it is lost, and a check whether NATS can be used."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from nats.aio.client import Client
from nats.errors import ConnectionClosedError, Error
from nats.js.errors import APIError

from agent_fabric.config.secret_references import hide_passwords

CONNECT_TIMEOUT_S: Final = 2
RETRY_S: Final = 1.0
"""How often NATS is tried while it is gone; each time between a half and one and a half of it, so that not all come at
the same moment."""
PING_S: Final = 5
"""A connection that is cut without a word is noticed after two of them."""
CLOSE_TIMEOUT_S: Final = 1.0

T = TypeVar("T")
Use = Callable[[Client], Awaitable[None]]
"""What is done with each connection; it may take as long as the connection lasts."""

_log = logging.getLogger(__name__)


class NatsConnection:
    """Keeps one connection to NATS for a process, from the first `start` to `aclose`.

    The client's own reconnecting is not used: it does not return from its first attempt while NATS is gone, and it
    keeps what was said meanwhile and says it later, when no one needs it any more.
    """

    def __init__(self, url: str, *, name: str, without: str, quiet: bool = False) -> None:
        """Prepare it. `without` says what is so while there is no connection; `quiet`: another one warns already."""
        self._servers = url.split(",")
        self._url = hide_passwords(url)
        self._name = name
        self._without = without
        self._level = logging.INFO if quiet else logging.WARNING
        self._uses: list[Use] = []
        self._keeping: asyncio.Task[None] | None = None
        self._closing = False
        self._warned = False
        self.client: Client | None = None
        """The connection, while there is one."""

    def start(self) -> None:
        """Begin to connect, unless that was done. Needs a running event loop."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name="nats")

    def use(self, use: Use) -> None:
        """Have something done with each connection as soon as it is there; to be said before `start`."""
        self._uses.append(use)

    async def aclose(self) -> None:
        """Send what waits, for a second at most, and close it."""
        if self._keeping is None:
            return
        if self.client is not None:
            with suppress(Error, OSError, TimeoutError):
                await self.client.flush(timeout=1)
        self._closing = True  # the client swallows some cancellations
        self._keeping.cancel()
        await asyncio.wait([self._keeping])

    async def _keep(self) -> None:
        while not self._closing:
            lost: asyncio.Event = asyncio.Event()
            client = await self._connect(lost)
            if client is not None:
                await self._be_connected(client, lost)
            if not self._closing:
                await asyncio.sleep(RETRY_S * random.uniform(0.5, 1.5))  # noqa: S311 - jitter

    async def _connect(self, lost: asyncio.Event) -> Client | None:
        client = Client()

        async def on_closed() -> None:
            lost.set()

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S * (1 + len(self._servers))):
                await client.connect(
                    self._servers,
                    name=self._name,
                    no_echo=True,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=CONNECT_TIMEOUT_S,
                    ping_interval=PING_S,
                    error_cb=_ignore,
                    closed_cb=on_closed,
                    disconnected_cb=on_closed,
                )
        except (Error, OSError, TimeoutError) as problem:
            self._warn(str(problem) or type(problem).__name__)
            await _close(client)
            return None
        return client

    async def _be_connected(self, client: Client, lost: asyncio.Event) -> None:
        self.client = client
        if self._warned:
            self._warned = False
            _log.info("NATS at %s is back", self._url)
        using = [asyncio.ensure_future(use(client)) for use in self._uses]
        try:
            await lost.wait()
            self._warn("the connection was lost")
        finally:
            self.client = None
            for task in using:
                task.cancel()
            for result in await asyncio.gather(*using, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, Error | OSError | TimeoutError):
                    _log.error("What used NATS has failed", exc_info=result)
            await _close(client)

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            said = "NATS at %s cannot be reached (%s): %s"
            _log.log(self._level, said, self._url, hide_passwords(problem), self._without)


async def unless_lost(reply: Awaitable[T]) -> T:
    """Wait for a reply. A connection that is lost meanwhile cancels it, and no one else; that is an error like others.

    Raises:
        ConnectionClosedError: the connection was lost.
    """
    try:
        return await reply
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionClosedError from None


async def _ignore(_: Exception) -> None:
    """Say nothing: what matters is said once, when the connection is lost."""


async def _close(client: Client) -> None:
    with suppress(Error, OSError, TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await client.close()


async def find_nats_problem(url: str) -> str:
    """Return why NATS, or its JetStream, cannot be used; empty: both can."""
    client = Client()
    try:
        async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
            await client.connect(
                url.split(","),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=CONNECT_TIMEOUT_S,
                error_cb=_ignore,
            )
            await client.jetstream().account_info()
    except (Error, APIError, OSError, TimeoutError) as problem:
        return hide_passwords(str(problem)) or type(problem).__name__
    finally:
        with suppress(Error, OSError):
            await client.close()
    return ""
