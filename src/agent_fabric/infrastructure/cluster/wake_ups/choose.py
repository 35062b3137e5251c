"""Chooses how processes wake each other."""

import os
from typing import Final

from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.wake_ups import WakeUps
from agent_fabric.config.constants import DEFAULT_CLUSTER
from agent_fabric.config.schema.cluster import NatsConfig
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.cluster.wake_ups.hinted_pause import HintedPause
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.infrastructure.cluster.wake_ups.pokes import DeltaPokes, LogPokes

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
