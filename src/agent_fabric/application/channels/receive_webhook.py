"""Takes what a platform sends to the server: checks whose it is, makes it durable, and only then says yes."""

import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.channels import InboundLog
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.channels.inbound import Inbound
from agent_fabric.domain.errors import ConfigError, InvalidInputs, Unauthenticated
from agent_fabric.domain.webhooks import Signing, is_signed


@dataclass(frozen=True, slots=True)
class ReceiveWebhook:
    """Use case: take a delivery of a platform. Any server of a cluster may; the owner of the channel handles it."""

    signing: Signing
    secret: str
    """The reference of what the platform signs with."""
    verify_token: str
    """The reference of what the platform shows once, when the webhook is set up."""
    read: Callable[[Any], Sequence[Inbound]]
    inbound: InboundLog
    resolve: Resolve
    clock: Clock

    async def verify(self, shown: str, challenge: str) -> str:
        """Return the challenge of a platform that shows the right token.

        Raises:
            Unauthenticated: it does not.
        """
        wanted = await self._value(self.verify_token)
        if not wanted or not hmac.compare_digest(shown.encode(), wanted.encode()):
            raise _not_theirs()
        return challenge

    async def __call__(self, headers: Mapping[str, str], body: bytes) -> int:
        """Take a delivery; return how much of it is new.

        Raises:
            Unauthenticated: it is not the platform's.
            InvalidInputs: it cannot be read.
            StoreUnavailable: it should be delivered again.
        """
        now = self.clock.now()
        if not is_signed(self.signing, await self._value(self.secret), headers, body, now=now):
            raise _not_theirs()
        try:
            payload = json.loads(body)
        except (ValueError, RecursionError):
            raise InvalidInputs("The delivery is not JSON", hint="Only the platform sends here.") from None
        found = self.read(payload)
        return await self.inbound.add(found, now=now) if found else 0

    async def _value(self, reference: str) -> str:
        """Return a secret; one that cannot be had lets nobody in."""
        try:
            return await self.resolve(reference)
        except ConfigError:
            return ""


def _not_theirs() -> Unauthenticated:
    return Unauthenticated(
        "The signature, which is the credential here, is missing or wrong",
        hint="Check the app secret and the verify token, on both sides.",
    )
