"""A person on WhatsApp and a real server: only what Meta has signed comes in (CH-6, CH-17)."""

import asyncio
from pathlib import Path

import pytest

from integration.channels.test_telegram_served import _until, answering
from integration.http.served import PATIENCE_S, served
from standins.whatsapp_standin import APP_SECRET, NUMBER, TOKEN, WhatsAppStandIn

ROUTE = "/api/v1/channels/whatsapp"


async def test_a_signed_message_is_answered_once_and_a_spoofed_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TOKEN", TOKEN), ("SECRET", APP_SECRET), ("VERIFY", "verify-me-please")):
        monkeypatch.setenv(f"WHATSAPP_{name}", value)
    async with WhatsAppStandIn() as whatsapp:
        number = {
            "token": "env:WHATSAPP_TOKEN",
            "app_secret": "env:WHATSAPP_SECRET",
            "verify_token": "env:WHATSAPP_VERIFY",
            "phone_number_id": NUMBER,
            "api_base": whatsapp.api_base,
        }
        async with (
            served(tmp_path, answering, also={"channels": {"whatsapp": number}}) as server,
            asyncio.timeout(PATIENCE_S),
        ):
            del server.client.headers["Authorization"]
            wrong = await server.client.get(ROUTE, params={"hub.verify_token": "guess", "hub.challenge": "42"})
            right = await server.client.get(
                ROUTE, params={"hub.verify_token": "verify-me-please", "hub.challenge": "42"}
            )
            assert (wrong.status_code, right.status_code, right.text) == (401, 200, "42")
            headers, body = whatsapp.said("4917", "hello")
            spoofed = await server.client.post(ROUTE, content=body, headers={"content-type": "application/json"})
            assert spoofed.status_code == 401
            for _ in range(2):
                assert (await server.client.post(ROUTE, content=body, headers=headers)).status_code == 200
            while not whatsapp.messages:
                await asyncio.sleep(0.02)
            await asyncio.sleep(1.0)  # a second answer would come within this time
            assert len(whatsapp.messages) == 1
            assert "Your code is" in whatsapp.messages[0]["text"]["body"]


async def test_a_document_is_read_and_who_has_not_written_for_a_day_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TOKEN", TOKEN), ("SECRET", APP_SECRET), ("VERIFY", "verify-me-please")):
        monkeypatch.setenv(f"WHATSAPP_{name}", value)
    async with WhatsAppStandIn() as whatsapp:
        number = {"token": "env:WHATSAPP_TOKEN", "app_secret": "env:WHATSAPP_SECRET"}
        number |= {
            "verify_token": "env:WHATSAPP_VERIFY",
            "phone_number_id": NUMBER,
            "api_base": whatsapp.api_base,
            "template": "please_write",
        }
        async with (
            served(tmp_path, answering, also={"channels": {"whatsapp": number}}) as server,
            asyncio.timeout(2 * PATIENCE_S),
        ):

            async def deliver(delivery: tuple[dict[str, str], bytes]) -> None:
                headers, body = delivery
                assert (await server.client.post(ROUTE, content=body, headers=headers)).status_code == 200

            def texts() -> list[str]:
                return [each["text"]["body"] for each in whatsapp.messages if "text" in each]

            await deliver(whatsapp.said("4917", "hello"))
            code = (await _until(texts))[0].split("Your code is ")[1][:8]
            await server.client.post("/api/v1/users", json={"name": "ann", "role": "operator"})
            paired = await server.client.post("/api/v1/channels/pair", json={"code": code, "user": "ann"})
            assert paired.status_code == 200, paired.text
            await deliver(whatsapp.sent_file("4917", "../a b.txt", b"data", caption="read it"))
            answer = await _until(lambda: next((each for each in texts() if "read it" in each), None))
            assert "-a_b.txt" in answer
            whatsapp.is_window_closed = True
            assert (await server.client.post("/api/v1/channels/test", json={"user": "ann"})).status_code < 300
            await _until(lambda: [each for each in whatsapp.messages if each["type"] == "template"])
            failed = (await server.client.get("/api/v1/channels/deliveries?status=failed")).json()["deliveries"]
            assert "24 hours" in failed[0]["problem"]
            whatsapp.is_window_closed = False
            await deliver(whatsapp.said("4917", "/status"))
            await _until(lambda: [each for each in texts() if "A test message" in each])


async def test_without_a_number_nobody_gets_in(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        assert (await server.client.get(ROUTE)).status_code == 401
        assert (await server.client.post(ROUTE, json={})).status_code == 401
