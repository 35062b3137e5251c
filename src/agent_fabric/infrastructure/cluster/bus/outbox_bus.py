"""The bus as the parts of a server see it: what they publish is kept until other systems have it."""

from collections.abc import Callable, Mapping
from typing import Any

from agent_fabric.application.ports.bus import Bus, BusMessage, Handler, Outbox
from agent_fabric.application.ports.clock import IdSource


class OutboxBus:
    """Bus that puts messages into the outbox, too; those who listen in this process hear them at once."""

    def __init__(self, here: Bus, ids: IdSource, hint: Callable[[], None]) -> None:
        self._here = here
        self._ids = ids
        self._hint = hint
        self.outbox: Outbox | None = None
        """Known once the store is open."""

    def publish(self, subject: str, message: Mapping[str, Any]) -> None:
        self._here.publish(subject, message)
        if self.outbox is not None:
            self.outbox.put(BusMessage(self._ids.new_run_id(), subject, message))
            self._hint()

    def tell(self, message: BusMessage) -> None:
        """Tell of a message that is in the outbox already."""
        self._here.publish(message.subject, message.payload)
        self._hint()

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        return self._here.subscribe(pattern, handler)
