"""Only the platform itself brings anything in (CH-6, CH-17)."""

import hmac
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_fabric.application.channels.receive_webhook import ReceiveWebhook
from agent_fabric.domain.automation.webhooks import Scheme, Signing
from agent_fabric.domain.channels.inbound import Inbound
from agent_fabric.domain.errors import ConfigError, InvalidInputs, Unauthenticated
from agent_fabric.infrastructure.channels.whatsapp_wire import read_webhook
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryChannels

SECRET = b"an app secret of no worth"
SAID = {"from": "4917", "id": "wamid.1", "timestamp": "1", "type": "text", "text": {"body": "hello"}}
VALUE = {"metadata": {"phone_number_id": "1"}, "messages": [SAID]}
BODY = json.dumps({"entry": [{"changes": [{"value": VALUE}]}]}).encode()


async def _resolve(reference: str) -> str:
    known = {"env:SECRET": SECRET.decode(), "env:VERIFY": "verify me", "env:WEAK": "1234567890123456"}
    if reference not in known:
        raise ConfigError("not set")
    return known[reference]


def _receiver(secret: str = "env:SECRET") -> ReceiveWebhook:
    async def read(payload: Any) -> Sequence[Inbound]:
        return read_webhook(payload, phone_number_id="1")

    return ReceiveWebhook(
        signing=Signing(scheme=Scheme.GITHUB),
        secret=secret,
        verify_token="env:VERIFY",
        read=read,
        inbound=MemoryChannels().inbound,
        resolve=_resolve,
        clock=FrozenClock(),
    )


def _signed(body: bytes, secret: bytes = SECRET) -> dict[str, str]:
    return {"x-hub-signature-256": "sha256=" + hmac.digest(secret, body, "sha256").hex()}


async def test_a_signed_delivery_is_taken_once() -> None:
    receive = _receiver()
    assert (await receive(_signed(BODY), BODY)).new == 1
    assert (await receive(_signed(BODY), BODY)).new == 0


async def test_a_spoofed_one_is_not() -> None:
    receive = _receiver()
    for headers in ({}, _signed(BODY, b""), _signed(BODY, b"guessed"), _signed(BODY + b" ")):
        with pytest.raises(Unauthenticated):
            await receive(headers, BODY)
    with pytest.raises(Unauthenticated):
        await _receiver("env:MISSING")(_signed(BODY, b""), BODY)
    for broken in (b"{", b"[" * 100_000, b"payload=%7B", b"payload=" + b"&a=1" * 100, b"\xff"):
        with pytest.raises(InvalidInputs):
            await receive(_signed(broken), broken)


async def test_a_secret_that_can_be_guessed_lets_nobody_in() -> None:
    with pytest.raises(Unauthenticated):
        await _receiver("env:WEAK")(_signed(BODY, b"1234567890123456"), BODY)


async def test_the_webhook_is_set_up_with_the_right_token_only() -> None:
    assert await _receiver().verify("verify me", "42") == "42"
    for wrong in ("", "verify", "värify"):
        with pytest.raises(Unauthenticated):
            await _receiver().verify(wrong, "42")
