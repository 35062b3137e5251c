"""What others send us, seen from those who want to have it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from agent_fabric.application.ports.automation import DeadLetter
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

if TYPE_CHECKING:  # what only shows deliveries needs no events
    from agent_fabric.domain.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Something that a known sender has sent. Its text is theirs: no one here vouches for it."""

    delivery_id: str
    """The same when it is delivered again."""
    event: str
    """What it is about, in the sender's own words."""
    payload: Any
    headers: Mapping[str, str]
    """What the sender says about it, names in small letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """A delivery with everything that follows from it."""

    source: str
    delivery_id: str
    runs: "Mapping[RunId, Event]" = field(default_factory=dict)
    """The runs that it starts, each with its first event, which has the whole body."""
    letters: Sequence[DeadLetter] = ()
    """What could not be started."""
    message: BusMessage | None = None
    """What the bus is told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What became of a delivery."""

    delivery_id: str
    """What it is called here; the same when it is delivered again."""
    run_id: RunId | None = None
    """The run of the workflow that it started; null if it starts none."""
    is_repeated: bool = False
    """Whether it had been delivered before; then nothing followed from it this time."""
    answer: Mapping[str, Any] | None = None
    """What the sender wants to hear, if it is something special."""


class WebhookReceiver(Protocol):
    """Takes the deliveries of a source, as a channel does."""

    async def receive(self, source: str, delivery: Delivery) -> Mapping[str, Any] | None:
        """Take a delivery; return what the sender is to be answered, or None for the usual.

        It comes once. Only if we are killed in this very moment it may come again, under the same id.

        Raises:
            FabricError: it could not be taken; the sender is told, and delivers it again.
        """
        ...


class DeliveryStore(Protocol):
    """Remembers what has been delivered. A delivery and what follows from it become durable in one transaction."""

    async def find(self, source: str, delivery_id: str, runs: Sequence[RunId]) -> Sequence[RunId] | None:
        """Return those of the runs that there are, if a delivery has come before; None: it has not."""
        ...

    async def take(self, delivery: NewDelivery) -> Sequence[RunId] | None:
        """Write a delivery, its runs without a driver, its dead letters and its message; return the runs that are new.

        None: it has come before, and nothing was written.
        """
        ...
