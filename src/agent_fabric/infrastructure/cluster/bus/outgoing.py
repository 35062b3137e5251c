"""Joins what tells other systems of runs and alerts: the outbox, the relay and the bus."""

import os
from collections.abc import Sequence

from agent_fabric.application.cluster.bus.relay_outbox import RelayOutbox
from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.ports.bus import Bus, BusMessage, DurableBus
from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.pending_work import OUTBOX
from agent_fabric.application.ports.storage import Storage
from agent_fabric.config.schema.cluster import NatsConfig
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.events import Event, RunCompleted
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.announcements import ANNOUNCED, is_announced
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus, InProcessDurableBus, OutboxBus
from agent_fabric.infrastructure.cluster.wake_ups.choose import watched_pause
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps

_NOTED = "outbox"


class OutgoingMessages(EventsOnly):
    """EventSink that sees to it that what this process notes in the outbox is relayed at once."""

    def __init__(self, nats: NatsConfig) -> None:
        self.durable: DurableBus = _open_durable_bus(nats)
        """Where other systems hear of everything at least once."""
        self._here = InProcessBus()
        self._hints = InProcessWakeUps()
        self._relay: RelayOutbox | None = None
        self._outbox = OutboxBus(self._here, RandomIds(), self._hint)

    @property
    def bus(self) -> Bus:
        return self._outbox

    def tell(self, message: BusMessage) -> None:
        """Tell of a message that was put into the outbox together with what it is about."""
        self._outbox.tell(message)

    def open(self, storage: Storage, watch: WatchPendingWork | None) -> None:
        """Learn where the outbox is, and who looks whether there is something in it."""
        self._outbox.outbox = storage.outbox
        self._relay = RelayOutbox(
            outbox=storage.outbox,
            reader=storage.reader,
            bus=self.durable,
            here=self._here,
            clock=SystemClock(),
            is_discreet=lambda run_id: storage.encryption.cipher_of(run_id) is not None,
            pause=watched_pause(self._hints, _NOTED, OUTBOX, watch),
        )

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if self._relay is None:
            return
        for event in events:
            if event.body.kind in ANNOUNCED and _may_be_noted(event):
                self._relay.own(run_id)
                self._hint()
                return

    async def relay(self) -> None:
        assert self._relay is not None, "the store is open"
        await self._relay()

    async def aclose(self) -> None:
        """Close the bus. What it was not told of stays in the outbox."""
        await self.durable.aclose()

    def _hint(self) -> None:
        self._hints.poke(_NOTED, {})


def _may_be_noted(event: Event) -> bool:
    """Tell whether the outbox may have something of an event: not of how a task ends, which has specialists."""
    body = event.body
    return is_announced(event, of_workflow=not (isinstance(body, RunCompleted) and body.specialist_ids))


def _open_durable_bus(nats: NatsConfig) -> DurableBus:
    url = nats.address(os.environ)
    if url is None:
        return InProcessDurableBus()
    try:
        from agent_fabric.infrastructure.cluster.nats.bus import JetStreamBus  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`nats.url`") from None
    return JetStreamBus(url, replicas=nats.replicas, quiet=True)  # what wakes others says that NATS is gone
