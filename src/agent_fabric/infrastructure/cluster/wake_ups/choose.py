"""Chooses how processes wake each other, and the pauses between two polls that a hint ends early."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.wake_ups import WakeUps
from agent_fabric.config.constants import DEFAULT_CLUSTER
from agent_fabric.config.schema.cluster import NatsConfig
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.infrastructure.cluster.wake_ups.pokes import DeltaPokes, LogPokes

MIN_GAP_S: Final = 0.02
"""However many hints come, there are no more polls than fifty a second."""


class HintedPause:
    """Sleeps until the next poll is due or something has happened, whichever is first.

    It stands where `asyncio.sleep` would. What is hinted at during a poll ends the next pause at once: the poll may
    have looked too early.
    """

    def __init__(self, wake_ups: WakeUps, topic: str, *, min_s: float = 0.0) -> None:
        """Sleep, until a hint of `topic` comes or `wake` is called, for `min_s` at least where one is asked for less.

        With `min_s`, another task looks for work, and wakes the one that sleeps here.
        """
        self._wake_ups = wake_ups
        self._topic = topic
        self._min_s = min_s
        self._hinted: asyncio.Event | None = None
        self._woken_at = 0.0

    async def __call__(self, timeout_s: float) -> None:
        """Wait for a hint, for `timeout_s` at most."""
        await self.until_hinted(timeout_s)

    async def until_hinted(self, timeout_s: float) -> bool:
        """Wait for a hint, for `timeout_s` at most; tell whether one came."""
        if self._hinted is None:  # nothing can be listened to before there is an event loop
            self._hinted = asyncio.Event()
            self._wake_ups.listen(self._topic, self._hint)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(max(timeout_s, self._min_s)):
                await self._hinted.wait()
                await asyncio.sleep(max(0.0, self._woken_at + MIN_GAP_S - loop.time()))
        except TimeoutError:
            pass
        was_hinted = self._hinted.is_set()
        self._hinted.clear()
        self._woken_at = loop.time()
        return was_hinted

    def wake(self) -> None:
        """End the pause, or the next one."""
        if self._hinted is not None:
            self._hinted.set()

    def _hint(self, _: Mapping[str, Any]) -> None:
        self.wake()


SELDOM_S: Final = 60.0
"""How often a loop looks for work that `WatchPendingWork` looks for as well."""


def open_wake_ups(nats: NatsConfig, cluster: str = DEFAULT_CLUSTER) -> WakeUps:
    """Return what wakes others of a cluster: over NATS, where it is configured, or else this process alone.

    Raises:
        ConfigProblem: the address is a reference that leads nowhere.
        MissingExtra: the client of NATS is not installed.
    """
    url = nats.address(os.environ)
    if url is None:
        return InProcessWakeUps()
    try:
        from agent_fabric.infrastructure.cluster.nats.wake_ups import NatsWakeUps  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`nats.url`") from None
    return NatsWakeUps(url, cluster=cluster)


def log_pokes(nats: NatsConfig, wake_ups: WakeUps) -> tuple[EventSink, ...]:
    """Return who tells other processes that a log has grown; without NATS no one is told."""
    return () if nats.url is None else (LogPokes(wake_ups),)


def delta_pokes(nats: NatsConfig, wake_ups: WakeUps) -> tuple[DeltaPokes, ...]:
    """Return who sends other processes answers while they are written; without NATS no one gets them."""
    return () if nats.url is None else (DeltaPokes(wake_ups),)


def watched_pause(wake_ups: WakeUps, topic: str, kind: str, watch: WatchPendingWork | None) -> HintedPause:
    """Return a pause that a hint ends, and a look that finds work of a kind; without one who looks, time does."""
    if watch is None:
        return HintedPause(wake_ups, topic)
    pause = HintedPause(wake_ups, topic, min_s=SELDOM_S)
    watch.listen(kind, pause.wake)
    return pause
