"""What others send us, seen from those who want to have it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Something that a known sender has sent. Its text is theirs: nobody here vouches for it."""

    delivery_id: str
    """The same when it is delivered again."""
    event: str
    """What it is about, in the sender's own words."""
    payload: Any
    headers: Mapping[str, str]
    """What the sender says about it, names in small letters."""


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
    """Remembers what has been delivered."""

    async def knows(self, source: str, delivery_id: str) -> bool:
        """Tell whether a delivery has come before."""
        ...

    async def note(self, source: str, delivery_id: str) -> bool:
        """Remember a delivery, durably; False if it is known already."""
        ...
