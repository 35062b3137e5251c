"""Receivers of messages, and what is still to be sent to them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from agent_fabric.domain.automation.outgoing import OutgoingMessage, Subscription


class SendOutcome(NamedTuple):
    """What a receiver answered."""

    status: int
    """0: nothing came back."""
    problem: str = ""

    @property
    def is_taken(self) -> bool:
        """Whether the receiver has the message."""
        return 200 <= self.status < 300


class MessageSender(Protocol):
    """Sends messages over HTTP."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> SendOutcome:
        """Send one message. Never raises for what the receiver does; redirects are not followed."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class SubscriptionStore(Protocol):
    """Receivers."""

    async def save(self, subscription: Subscription, *, new: bool = False) -> None:
        """Keep a subscription.

        Raises:
            NameTaken: it is to be new, and there is one of this name.
        """
        ...

    async def list(self) -> Sequence[Subscription]:
        """Return all subscriptions, by name."""
        ...

    async def remove(self, name: str) -> bool:
        """Delete a subscription and what was to be sent to it; False: there is none."""
        ...


class OutgoingQueue(Protocol):
    """Messages that receivers have not had yet."""

    async def put(self, messages: Sequence[OutgoingMessage]) -> None:
        """Keep messages until they are sent; one that is known stays as it is."""
        ...

    async def claim(self, subscription: str, now: float, *, until: float) -> OutgoingMessage | None:
        """Return a message whose time has come, for this process until then. Messages of one run keep their order."""
        ...

    async def settle(self, message: OutgoingMessage, *, next_at: float | None) -> None:
        """Forget a message that was sent or given up; with `next_at`, note a failed attempt instead."""
        ...
