"""A person on Slack and one on Discord, and a real server: code, pairing, answer, approval (CH-3, CH-7, CH-14, C17)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from integration.channels.test_telegram_served import _until, answering
from integration.http.served import Served, served
from standins import discord_standin, slack_standin
from standins.discord_standin import DiscordStandIn
from standins.slack_standin import SlackStandIn


async def _pair(server: Served, name: str, role: str, text: str) -> None:
    added = await server.client.post("/api/v1/users", json={"name": name, "role": role})
    assert added.status_code == 201, added.text
    code = text.split("Your code is ")[1][:8]
    paired = await server.client.post("/api/v1/channels/pair", json={"code": code, "user": name})
    assert paired.status_code == 200, paired.text


@pytest.mark.proves("A33-093", "C17")
async def test_from_a_strangers_first_word_to_an_approved_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT", slack_standin.TOKEN)
    monkeypatch.setenv("SLACK_APP", slack_standin.APP_TOKEN)
    monkeypatch.setenv("DISCORD", discord_standin.TOKEN)
    async with SlackStandIn() as slack, DiscordStandIn() as discord:
        channels: dict[str, Any] = {
            "slack": {"token": "env:SLACK_BOT", "app_token": "env:SLACK_APP", "api_base": slack.api_base},
            "discord": {"token": "env:DISCORD", "api_base": discord.api_base},
        }
        async with served(tmp_path, answering, also={"channels": channels}) as server:
            await _until(lambda: slack.sockets and discord.sockets)
            await slack.write("U7", "hello")
            await _pair(server, "ann", "operator", (await _until(lambda: slack.texts("D7")))[0])
            await discord.write("8", "hello")
            await _pair(server, "bob", "operator", (await _until(lambda: discord.texts("98")))[0])
            slack.faults["chat.postMessage"] = ["cut_after"]  # history tells that it has arrived
            await slack.write("U7", "how are you?")
            discord.faults = ["cut_after"]  # the nonce does
            await discord.write("8", "how are you?")
            await _until(lambda: [each for each in slack.texts("D7") if "you said" in each])
            await _until(lambda: [each for each in discord.texts("98") if "you said" in each])
            await slack.write("U7", "/new")
            await slack.write("U7", "deploy it")
            card = await _until(lambda: next((each for each in slack.messages if slack.buttons(each)), None))
            assert "make deploy" in card["text"]
            await slack.press("U9", card, "Approve")
            await _until(lambda: [each for each in slack.whispers if "not yours" in each["text"]])
            await slack.press("U7", card, "Approve")
            await _until(lambda: any("*done*" in each and "make deploy" in each for each in slack.texts("D7")))
            await _until(lambda: "approved by ann" in card["text"] and not slack.buttons(card))
            await discord.write("8", "/new")
            await discord.write("8", "deploy it")
            card = await _until(lambda: next((each for each in discord.messages if discord.buttons(each)), None))
            await discord.press("9", card, "Approve")
            await _until(lambda: [each for each in discord.whispers if "not yours" in each["content"]])
            await discord.press("8", card, "Deny")
            await _until(lambda: "denied by bob" in card["content"] and not discord.buttons(card))
            await asyncio.sleep(1.0)  # a second answer would come within this time
            for texts in (slack.texts("D7"), discord.texts("98")):
                assert len([each for each in texts if "you said" in each]) == 1
            listed = (await server.client.get("/api/v1/channels")).json()["channels"]
            assert {each["channel"]: each["connected"] for each in listed} == {"slack": True, "discord": True}
            doubts = (await server.client.get("/api/v1/channels/deliveries?status=in_doubt")).json()["deliveries"]
            assert doubts == []
