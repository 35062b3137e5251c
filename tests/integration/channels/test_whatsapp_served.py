"""A person on WhatsApp and a real server: only what Meta has signed comes in (CH-6, CH-17)."""

import asyncio
from pathlib import Path

import pytest

from agent_fabric.testing.whatsapp_standin import APP_SECRET, NUMBER, TOKEN, WhatsAppStandIn
from integration.channels.test_telegram_served import answering
from integration.http.served import PATIENCE_S, served

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


async def test_without_a_number_nobody_gets_in(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        assert (await server.client.get(ROUTE)).status_code == 401
        assert (await server.client.post(ROUTE, json={})).status_code == 401
