"""Messages between parts of a system that do not know each other."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agent_fabric.domain.ids import RunId

Handler = Callable[[str, Mapping[str, Any]], None]
"""Takes a subject and a message; it must not block."""


class Bus(Protocol):
    """Hands messages on by subject. The log is the truth: a message that gets lost can be read there."""

    def publish(self, subject: str, message: Mapping[str, Any]) -> None:
        """Tell everyone who wants to know. Never blocks, and never fails because of someone who listens."""
        ...

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        """Hear about subjects; `*` stands for one part of a subject, a final `>` for all that follow.

        Returns:
            What ends it.
        """
        ...


class BusMessage(NamedTuple):
    """A message that is delivered at least once."""

    message_id: str
    """The same whenever it is delivered: `run:seq` for what became of a run."""
    subject: str
    payload: Mapping[str, Any]


Subscriber = Callable[[BusMessage], Awaitable[None]]
"""Takes a message. If it fails, the message comes again; it may come more than once in any case."""


class DurableBus(Protocol):
    """Keeps messages until those who want them have had them."""

    async def deliver(self, messages: Sequence[BusMessage]) -> bool:
        """Take messages over, in this order. True: they are kept, and the sender may forget them; False: not now.

        Messages that it has taken over before, by their id, are not delivered again, as far as it remembers.
        """
        ...

    def attend(self, name: str, pattern: str, subscriber: Subscriber) -> Callable[[], None]:
        """Have every message whose subject fits handled at least once, one after another, under a lasting name.

        A later subscriber of the same name gets what came in between. Of several at the same time, in
        whatever processes, each message goes to one. Needs a running event loop.

        Returns:
            What ends it.
        """
        ...

    async def aclose(self) -> None:
        """Stop. Messages that are being handled come again."""
        ...


class OutboxRow(NamedTuple):
    """Events of a run that the bus has not been told of yet."""

    run_id: RunId
    from_seq: int
    upto_seq: int
    noted_at: float
    """When the first of them became durable."""


class Outbox(Protocol):
    """What the bus has not been told of yet. A run's row is written together with its events."""

    def put(self, message: BusMessage) -> None:
        """Keep a message that belongs to no run. Does not wait: it is durable a moment later. Needs an event loop."""
        ...

    async def messages(self, *, limit: int) -> Sequence[tuple[BusMessage, float]]:
        """Return the oldest messages that belong to no run, each with when it was put."""
        ...

    async def remove(self, message_ids: Collection[str]) -> None:
        """Forget messages that were delivered."""
        ...

    async def rows(self, *, limit: int) -> Sequence[OutboxRow]:
        """Return the rows that were noted first."""
        ...

    async def settle(self, row: OutboxRow) -> None:
        """Forget a row as it was read; events that were appended since then stay."""
        ...
