"""Tells the bus what is in the outbox."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import field

from agent_fabric.application.ports.bus import Bus, BusMessage, DurableBus, Outbox, OutboxRow
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RunNotFound, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.announcements import announcements

LOOK_EVERY_S = 1.0
GRACE_S = 5.0
"""How long what other processes have noted is left to them. Either way, the bus knows a message by its id."""
MAX_ROWS = 500
"""That are looked at in one round."""
PAGE = 256
"""Events of a run that are read at once."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RelayOutbox:
    """Use case: hand on what runs have noted, and what was put into the outbox, until the bus has taken it over."""

    outbox: Outbox
    reader: RunReader
    bus: DurableBus
    here: Bus
    """Who listens in this process hears what it relays of runs."""
    clock: Clock
    is_discreet: Callable[[RunId], bool]
    pause: Callable[[float], Awaitable[None]]
    """Waits until the next look, or until something was noted here."""
    _own: set[RunId] = field(default_factory=set)

    def own(self, run_id: RunId) -> None:
        """Learn that this process has noted events of a run: no one else will relay them any sooner."""
        self._own.add(run_id)

    async def __call__(self) -> None:
        while True:
            try:
                await self.relay()
            except StoreUnavailable as problem:
                _log.warning("What the bus is to be told could not be read: %s", problem.message)
            await self.pause(LOOK_EVERY_S)

    async def relay(self) -> None:
        """Hand on everything that is due.

        Raises:
            StoreUnavailable: the outbox cannot be read or written.
        """
        due = self.clock.now() - GRACE_S
        looked_for = set(self._own)
        rows = await self.outbox.rows(limit=MAX_ROWS)
        if len(rows) < MAX_ROWS:  # the others are told already, or there was nothing to tell: so it is with most runs
            self._own -= looked_for - {row.run_id for row in rows}
        for row in rows:
            if (row.run_id in self._own or row.noted_at <= due) and not await self._relay_row(row):
                return
        put = [message for message, _ in await self.outbox.messages(limit=MAX_ROWS)]
        if put and await self.bus.deliver(put):
            await self.outbox.remove([message.message_id for message in put])

    async def _relay_row(self, row: OutboxRow) -> bool:
        """Hand on what became of one run; False: the bus takes nothing now."""
        self._own.discard(row.run_id)
        try:
            messages = await self._messages(row)
        except StoreUnavailable:
            raise
        except FabricError as problem:
            _log.warning("The bus is not told of run %s: %s", row.run_id, problem.message)
            messages = []
        if messages and not await self.bus.deliver(messages):
            self._own.add(row.run_id)
            return False
        await self.outbox.settle(row)
        for message in messages:
            self.here.publish(message.subject, message.payload)
        return True

    async def _messages(self, row: OutboxRow) -> list[BusMessage]:
        messages: list[BusMessage] = []
        discreet, after = self.is_discreet(row.run_id), row.from_seq - 1
        while after < row.upto_seq:
            try:
                events = await self.reader.page(row.run_id, after=after, limit=min(PAGE, row.upto_seq - after))
            except RunNotFound:
                break  # it was deleted
            if not events:
                break
            told = announcements(row.run_id, events, discreet=discreet)
            messages += [BusMessage(f"{row.run_id}:{each.seq}", each.subject, each.payload) for each in told]
            after = events[-1].seq
        return messages
