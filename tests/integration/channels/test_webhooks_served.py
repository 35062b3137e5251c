"""Telegram and Slack deliver to a real server: only what they have signed comes in, and once (CH-6, CH-7, CH-17)."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing import telegram_standin
from agent_fabric.testing.telegram_standin import TelegramStandIn
from integration.channels.test_telegram_served import _card, _until, answering
from integration.http.served import Served, served
from standins import slack_standin
from standins.slack_standin import SlackStandIn

TELEGRAM, SLACK = "/api/v1/channels/telegram", "/api/v1/channels/slack"
SECRET = "telegram-shows-this-0123456789_of-no-worth"
Delivery = tuple[dict[str, str], bytes]


async def _deliver(server: Served, path: str, deliveries: list[Delivery]) -> list[int]:
    """Deliver as the platform does, without any other credential."""
    async with server.another_client() as client:
        del client.headers["Authorization"]
        return [(await client.post(path, content=body, headers=headers)).status_code for headers, body in deliveries]


async def _pair(server: Served, name: str, text: str) -> None:
    added = await server.client.post("/api/v1/users", json={"name": name, "role": "operator"})
    assert added.status_code == 201, added.text
    code = text.split("Your code is ")[1][:8]
    paired = await server.client.post("/api/v1/channels/pair", json={"code": code, "user": name})
    assert paired.status_code == 200, paired.text


async def _slack_is_safe(server: Served, slack: SlackStandIn) -> None:
    """Spoofed, old, replayed and strange deliveries bring nothing."""
    greeting = slack.delivery("events_api", {"type": "url_verification", "challenge": "42"})
    answer = await server.client.post(SLACK, content=greeting[1], headers=greeting[0])
    assert (answer.status_code, answer.json()) == (200, {"challenge": "42"})
    await slack.write("U7", "spoofed")
    [(headers, body)] = slack.deliveries()
    old = slack.delivery("events_api", json.loads(body), at=time.time() - 600)
    unsigned = {"content-type": "application/json"}
    changed = body.replace(b"spoofed", b"changed")
    assert await _deliver(server, SLACK, [(unsigned, body), (headers, changed), old]) == [401, 401, 401]
    other = json.loads(body) | {"team_id": "T2", "event_id": "EvOther"}
    assert await _deliver(server, SLACK, [slack.delivery("events_api", other)]) == [200]
    broken = slack.delivery("interactive", {})
    assert await _deliver(server, SLACK, [broken]) == [200]


@pytest.mark.proves("A33-093", "C17")
async def test_deliveries_are_taken_once_and_spoofed_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {"TG": telegram_standin.TOKEN, "TG_SECRET": SECRET, "SLACK_BOT": slack_standin.TOKEN}
    for name, value in (secrets | {"SLACK_SECRET": slack_standin.SIGNING_SECRET}).items():
        monkeypatch.setenv(name, value)
    async with TelegramStandIn() as telegram, SlackStandIn() as slack:
        channels: dict[str, Any] = {
            "telegram": {"token": "env:TG", "api_base": telegram.api_base, "webhook_secret": "env:TG_SECRET"},
            "slack": {"token": "env:SLACK_BOT", "signing_secret": "env:SLACK_SECRET", "api_base": slack.api_base},
        }
        channels["telegram"]["webhook_url"] = "https://fabric.example.org"
        async with served(tmp_path, answering, also={"channels": channels}) as server:
            await _until(lambda: telegram.webhook)
            assert telegram.webhook["url"] == f"https://fabric.example.org{TELEGRAM}"
            assert "getUpdates" not in telegram.calls
            telegram.write(7, "hello")
            [(headers, body)] = telegram.deliveries()
            wrong = {**headers, "x-telegram-bot-api-secret-token": "guess"}
            assert await _deliver(server, TELEGRAM, [(wrong, body), ({}, body)]) == [401, 401]
            assert await _deliver(server, TELEGRAM, [(headers, body)] * 2) == [200, 200]
            await _pair(server, "ann", (await _until(lambda: telegram.texts(7)))[0])
            await _slack_is_safe(server, slack)
            await slack.write("U7", "hello")
            [hello] = slack.deliveries()
            assert await _deliver(server, SLACK, [hello, hello]) == [200, 200]
            await _pair(server, "bob", (await _until(lambda: slack.texts("D7")))[0])
            telegram.write(7, "deploy it")
            assert await _deliver(server, TELEGRAM, telegram.deliveries()) == [200]
            await slack.write("U7", "deploy it")
            assert await _deliver(server, SLACK, slack.deliveries()) == [200]
            card = await _until(lambda: _card(telegram, 7))
            telegram.press(7, card, "Approve")
            assert await _deliver(server, TELEGRAM, telegram.deliveries()) == [200]
            await _until(
                lambda: (
                    "approved by ann" in card.text
                    and any("failed: make deploy" in each and "done" in each for each in telegram.texts(7))
                )
            )
            asked = await _until(lambda: next((each for each in slack.messages if slack.buttons(each)), None))
            await slack.press("U7", asked, "Deny")
            assert await _deliver(server, SLACK, slack.deliveries()) == [200]
            await _until(lambda: "denied by bob" in asked["text"])
            listed = (await server.client.get("/api/v1/channels")).json()["channels"]
            assert {each["channel"]: each["connected"] for each in listed} == {"telegram": True, "slack": True}
            assert len([each for each in telegram.texts(7) if "Your code is" in each]) == 1
            assert len([each for each in slack.texts("D7") if "Your code is" in each]) == 1


async def test_where_nothing_is_configured_nobody_gets_in(tmp_path: Path) -> None:
    async with served(tmp_path, answering) as server:
        assert await _deliver(server, TELEGRAM, [({}, b"{}")]) == [401]
        assert await _deliver(server, SLACK, [({}, b"{}")]) == [401]
