"""Takes what a platform sends to the server: checks whose it is, makes it durable, and only then says yes."""

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from agent_fabric.application.ports.channels import InboundLog
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.automation.webhooks import Signing, greeting_in, is_signed
from agent_fabric.domain.channels.inbound import Inbound
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, InvalidInputs, Unauthenticated
from agent_fabric.domain.secrets.strength import weakness

MIN_SECRET_BYTES: Final = 16
"""A shorter secret, or one that can be guessed, lets no one in: its holder can write as everyone."""
MAX_FIELDS: Final = 20
"""Fields of a form that are read; Slack sends one."""
FORM_FIELD: Final = "payload"
"""Where the JSON is in a delivery that is a form, as Slack sends presses of buttons."""

ReadDelivery = Callable[[Any], Awaitable[Sequence[Inbound]]]
"""Returns what a delivery brings. Raises FabricError: it should be delivered again."""


class Receipt(NamedTuple):
    """What became of a delivery."""

    new: int
    """How much of it was not known."""
    answer: Mapping[str, str]
    """What the platform wants to hear; mostly nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveWebhook:
    """Use case: take a delivery of a platform. Any server of a cluster may; the owner of the channel handles it."""

    signing: Signing
    secret: str
    """The reference of what the platform signs with."""
    verify_token: str = ""
    """The reference of what the platform shows once, when the webhook is set up; empty: it shows nothing."""
    read: ReadDelivery
    inbound: InboundLog
    resolve: Resolve
    clock: Clock
    _strong: set[bytes] = field(default_factory=set)
    """The hash of the secret that was found to be strong."""

    async def verify(self, shown: str, challenge: str) -> str:
        """Return the challenge of a platform that shows the right token.

        Raises:
            Unauthenticated: it does not.
        """
        wanted = await self._value(self.verify_token) if self.verify_token else ""
        if not wanted or not hmac.compare_digest(shown.encode(), wanted.encode()):
            raise Unauthenticated(
                "The verify token, which is the credential here, is missing or wrong",
                hint="Type the same verify token on both sides: in the app's settings and for this channel.",
            )
        return challenge

    async def __call__(self, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Take a delivery.

        Raises:
            Unauthenticated: it is not the platform's.
            InvalidInputs: it cannot be read.
            ServerBusy, StoreUnavailable: it should be delivered again.
        """
        now = self.clock.now()
        secret = await self._strong_secret()
        if not is_signed(self.signing, secret, headers, body, now=now):
            raise _not_theirs()
        payload = _read_payload(body)
        greeting = greeting_in(self.signing.scheme, payload)
        if greeting is not None:
            return Receipt(0, greeting)
        found = await self.read(payload)
        return Receipt(await self.inbound.add(found, now=now) if found else 0, {})

    async def _strong_secret(self) -> str:
        """Return what the platform signs with; empty: there is none, or it can be guessed."""
        secret = await self._value(self.secret)
        octets = secret.encode(errors="surrogateescape")
        known = hashlib.sha256(octets).digest()  # to find out takes longer than everything else about a delivery
        if known not in self._strong:
            if weakness(octets, shortest=MIN_SECRET_BYTES):
                return ""
            self._strong.clear()
            self._strong.add(known)
        return secret

    async def _value(self, reference: str) -> str:
        """Return a secret; one that cannot be had lets no one in."""
        try:
            return await self.resolve(reference)
        except ConfigError:
            return ""


def _read_payload(body: bytes) -> Any:
    """Return the JSON of a delivery, which may be in a form.

    Raises:
        InvalidInputs: there is none.
    """
    try:
        if body.startswith(FORM_FIELD.encode() + b"="):
            fields = dict(parse_qsl(body.decode(), max_num_fields=MAX_FIELDS))
            return json.loads(fields.get(FORM_FIELD, ""))
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInputs("The delivery is not JSON", hint="Only the platform sends here.") from None


def _not_theirs() -> Unauthenticated:
    return Unauthenticated(
        "The signature, which is the credential here, is missing or wrong",
        hint="Check the secret of the webhook on both sides. It has 16 characters or more, and cannot be guessed.",
    )
