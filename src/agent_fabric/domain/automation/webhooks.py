"""What others send us of their own accord, and how they show that it is theirs.

A sender and we share a secret, and it signs what it sends. A stranger who has seen one delivery can at most send that
very one again. Where the signature covers the time, an old one is refused; and what
has come before, whatever time is written on it, is known by its body.
"""

import hashlib
import hmac
import uuid
from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, assert_never

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

TOLERANCE_S: Final = 300.0
"""How far the time of a signature may be from ours."""
_RUNS: Final = uuid.UUID("9a1d6a58-5b0e-4f0c-9c50-6a7e2f5d7c11")
"""Namespace of the ids of runs that deliveries start."""


class Scheme(StrEnum):
    """How a sender shows that something is theirs."""

    HMAC_SHA256 = "hmac-sha256"
    """HMAC of the body in a header of your choice, in hexadecimal or base64; with a time, of `TIME.BODY`."""
    GITHUB = "github"
    """`X-Hub-Signature-256: sha256=…`, also of Gitea, Forgejo and others."""
    SLACK = "slack"
    """`X-Slack-Signature: v0=…` over the time and the body."""
    STRIPE = "stripe"
    """`Stripe-Signature: t=…,v1=…` over the time and the body."""
    TELEGRAM = "telegram"
    """The secret itself in `X-Telegram-Bot-Api-Secret-Token`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """How the deliveries of one source are signed."""

    scheme: Scheme
    header: str = "x-signature-256"
    """Where the signature is; only for `hmac-sha256`."""
    timestamp_header: str = ""
    """Where the time is that the signature covers; empty: it covers none. Only for `hmac-sha256`."""


def is_signed(signing: Signing, secret: str, headers: Mapping[str, str], body: bytes, *, now: float) -> bool:
    """Tell whether a delivery comes from a sender that knows the secret, and is not too old. Takes as long either way.

    Args:
        signing: How it should be signed.
        secret: What the sender and we share; without one, nothing is signed.
        headers: Of the delivery, their names in small letters.
        body: Exactly as it came.
        now: Seconds since 1970.
    """
    match signing.scheme:
        case Scheme.GITHUB:
            shown, signed, prefix = [headers.get("x-hub-signature-256", "")], body, "sha256="
        case Scheme.SLACK:
            time = headers.get("x-slack-request-timestamp", "")
            shown, signed, prefix = [headers.get("x-slack-signature", "")], b"v0:%b:%b" % (_ascii(time), body), "v0="
            secret = secret if _is_near(time, now) else ""
        case Scheme.STRIPE:
            parts = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")[:20]]
            time = next((value for name, _, value in parts if name == "t"), "")
            shown = [value for name, _, value in parts if name == "v1"]
            signed, prefix = b"%b.%b" % (_ascii(time), body), ""
            secret = secret if _is_near(time, now) else ""
        case Scheme.TELEGRAM:
            return bool(secret) & _equal(headers.get("x-telegram-bot-api-secret-token", ""), secret)
        case Scheme.HMAC_SHA256:
            shown, signed, prefix = [headers.get(signing.header, "").removeprefix("sha256=")], body, ""
            if signing.timestamp_header:
                time = headers.get(signing.timestamp_header, "")
                signed = b"%b.%b" % (_ascii(time), body)
                secret = secret if _is_near(time, now) else ""
        case unknown:
            assert_never(unknown)
    digest = hmac.digest(secret.encode(), signed, "sha256")
    right = [prefix + digest.hex()]
    if signing.scheme is Scheme.HMAC_SHA256:
        right.append(b64encode(digest).decode())
        shown = [each.lower() if len(each) == len(right[0]) else each for each in shown]
    return bool(secret) & any([_equal(one, other) for one in shown for other in right])  # noqa: C419 - all of them


def delivery_id(signing: Signing, headers: Mapping[str, str], body: bytes) -> str:
    """Return what tells a delivery from all others of its source, and is the same when it is delivered again.

    Not the id that most senders put into a header: the signature does not cover that.
    """
    time = headers.get(signing.timestamp_header, "") if signing.timestamp_header else ""
    return hashlib.sha256(b"%b\n%b" % (_ascii(time), body)).hexdigest()


def run_of(source: str, delivery: str) -> RunId:
    """Return the id of the run that a delivery starts: the same one, however often it comes."""
    return RunId(str(uuid.uuid5(_RUNS, f"{source} {delivery}")))


def event_of(scheme: Scheme, headers: Mapping[str, str], payload: Any) -> str:
    """Return what a delivery is about, in the sender's own words; empty if it does not say."""
    if scheme is Scheme.GITHUB:
        return headers.get("x-github-event") or headers.get("x-gitea-event") or ""
    if not isinstance(payload, Mapping):
        return ""
    if scheme is Scheme.TELEGRAM:
        return next((str(name) for name in payload if name != "update_id"), "")
    inner = payload.get("event")
    if isinstance(inner, Mapping) and isinstance(inner.get("type"), str):
        return str(inner["type"])
    said: Sequence[Any] = (headers.get("x-event"), inner, payload.get("type"), payload.get("command"))
    return next((each for each in said if isinstance(each, str) and each), "")


def greeting_in(scheme: Scheme, payload: Any) -> dict[str, str] | None:
    """Return what to answer to a sender that only wants to know whether we are there; None if it wants more."""
    if scheme is Scheme.SLACK and isinstance(payload, Mapping) and payload.get("type") == "url_verification":
        return {"challenge": str(payload.get("challenge", ""))}
    return None


def shown_headers(signing: Signing, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a workflow may see: what is said about the delivery, and nothing that proves it."""
    hidden = {signing.header, "x-telegram-bot-api-secret-token", "x-api-key"}
    return {
        name: value
        for name, value in headers.items()
        if (name.startswith("x-") and name not in hidden and "signature" not in name and "forwarded" not in name)
        or name in {"content-type", "user-agent"}
    }


def _is_near(time: str, now: float) -> bool:
    return time.isascii() and time.isdigit() and len(time) <= 12 and abs(now - int(time)) <= TOLERANCE_S


def _ascii(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
