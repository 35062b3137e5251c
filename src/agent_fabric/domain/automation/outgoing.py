"""Messages that we send to others: how they are signed, and when they are tried again."""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass

RETRIES_S: Final = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
"""Pauses after failed attempts; after the last one, the message is a dead letter."""
DISABLED_AFTER_S: Final = 5 * 86_400.0
"""A receiver that has failed for so long is sent nothing any more."""
BOTH_SECRETS_S: Final = 86_400.0
"""How long the old secret signs as well, after a rotation."""
GONE: Final = 410
_PREFIX: Final = "whsec_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A receiver of messages."""

    name: str
    subjects: tuple[str, ...]
    """Such as `agent33.workflow.completed`; `*` stands for one part, a final `>` for all that follow."""
    url: str
    secret: str = ""
    """Where the secret is that signs messages, such as `env:NAME`; empty: they are not signed."""
    old_secret: str = ""
    """The secret before the last rotation."""
    old_until: float | None = None
    """Until when the old secret signs as well."""
    is_active: bool = True
    disabled_because: str = ""
    failing_since: float | None = None
    owner: str = ""
    created_at: float = 0.0

    def secrets(self, now: float) -> tuple[str, ...]:
        """Return the references of the secrets that sign now."""
        old = (self.old_secret,) if self.old_secret and self.old_until is not None and now < self.old_until else ()
        return (*((self.secret,) if self.secret else ()), *old)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message for one receiver."""

    id: str
    subscription: str
    message_id: str
    """The same, however often it is sent, and for every receiver."""
    subject: str
    payload: Mapping[str, Any]
    attempts: int = 0
    next_at: float = 0.0
    created_at: float = 0.0


def message_for(
    subscription: str, message_id: str, subject: str, payload: Mapping[str, Any], now: float
) -> OutgoingMessage:
    """Return a new message for a receiver; the same one has the same id, however often it is made."""
    return OutgoingMessage(
        id=f"{message_id}>{subscription}",
        subscription=subscription,
        message_id=message_id,
        subject=subject,
        payload=payload,
        next_at=now,
        created_at=now,
    )


def next_attempt_s(attempts: int) -> float | None:
    """Return how long to wait after so many failed attempts; None: there is no further one."""
    return RETRIES_S[attempts - 1] if attempts <= len(RETRIES_S) else None


def signed_headers(secrets: Sequence[str], message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed message, by https://www.standardwebhooks.com, and our own."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at)}
    if secrets:
        text = b"%b.%d.%b" % (message_id.encode(), at, body)
        headers["webhook-signature"] = " ".join(
            f"v1,{b64encode(hmac.digest(_key(secret), text, 'sha256')).decode()}" for secret in secrets
        )
        own = b"%d.%b" % (at, body)
        parts = [f"v1={hmac.digest(secret.encode(), own, 'sha256').hex()}" for secret in secrets]
        headers["X-Fabric-Signature"] = ",".join([f"t={at}", *parts])
    return headers


def _key(secret: str) -> bytes:
    """Return the key of a secret; `whsec_` and base64 is how others write one."""
    if secret.startswith(_PREFIX):
        try:
            return b64decode(secret.removeprefix(_PREFIX), validate=True)
        except NotBase64:
            return secret.encode()
    return secret.encode()
