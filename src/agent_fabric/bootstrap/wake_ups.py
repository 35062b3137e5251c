"""Chooses how processes wake each other."""

from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.wake_ups import WakeUps
from agent_fabric.config.schema.services import NatsConfig
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.wake_ups.in_process import InProcessWakeUps
from agent_fabric.infrastructure.wake_ups.log_pokes import LogPokes


def open_wake_ups(nats: NatsConfig) -> WakeUps:
    """Return what wakes others: over NATS, where it is configured, or else this process alone.

    Raises:
        MissingExtra: the client of NATS is not installed.
    """
    if nats.url is None:
        return InProcessWakeUps()
    try:
        from agent_fabric.infrastructure.nats.wake_ups import NatsWakeUps  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`nats.url`") from None
    return NatsWakeUps(nats.url)


def log_pokes(nats: NatsConfig, wake_ups: WakeUps) -> tuple[EventSink, ...]:
    """Return who tells other processes that a log has grown; without NATS there is nobody to tell."""
    return () if nats.url is None else (LogPokes(wake_ups),)
