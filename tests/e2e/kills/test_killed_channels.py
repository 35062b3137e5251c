"""A server that is killed while people write to it and it answers: nothing is lost, nothing is answered twice (CH-18).

Three platforms at once, each with its own way to know what has arrived. Telegram has none: what was under way there may
be missing, and then it is named as in doubt. All the while, outsiders press the button of a card.
"""

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.channels.addresses import run_of_message
from agent_fabric.testing import telegram_standin
from agent_fabric.testing.scripted_model import Answer, Call, Say, ScriptedModel
from agent_fabric.testing.telegram_standin import BOT_ID, SentMessage, TelegramStandIn
from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving
from effort import effort, report
from standins import discord_standin, slack_standin
from standins.discord_standin import DiscordStandIn
from standins.slack_standin import SlackStandIn

PATIENCE_S = 120.0
ANN, BOB, OUTSIDER = 7, 8, 9
TOKENS = {
    "TG": telegram_standin.TOKEN,
    "SLACK_BOT": slack_standin.TOKEN,
    "SLACK_APP": slack_standin.APP_TOKEN,
    "DISCORD": discord_standin.TOKEN,
}
NEW_EVERY = 8
"""Lives after which a conversation begins anew, so that turns stay short."""
MAX_BEHIND = 12
"""Messages without an answer with which the next server may be killed: twenty wait at most, and more are declined."""
ROUNDS = effort(1, 20)
KILLS = effort(4, 25)


def answering(request: dict[str, Any], _: int) -> Answer:
    last = request["messages"][-1]
    if last["role"] == "tool":
        return Say("deployed")
    words = str([each for each in request["messages"] if each["role"] == "user"][-1]["content"])
    return Call("shell", {"command": "make deploy"}) if "deploy" in words else Say(f"answer to {words}", pause_s=0.01)


@dataclass
class Platforms:
    """Everybody who writes, and what they have seen."""

    telegram: TelegramStandIn
    slack: SlackStandIn
    discord: DiscordStandIn
    said: dict[str, dict[str, str]] = field(default_factory=lambda: {"telegram": {}, "slack": {}, "discord": {}})
    """What was written on each platform, and by what it is known there."""

    left: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("telegram", "slack", "discord"), 0))
    """How many interrupted answers people have left."""

    async def say(self, platform: str, text: str) -> str:
        match platform:
            case "telegram":
                return str(self.telegram.write(ANN, text))
            case "slack":
                return await self.slack.write("U7", text)
            case _:
                return await self.discord.write("7", text)

    async def write(self, number: int) -> None:
        for platform, said in self.said.items():
            said[f"m{number}."] = await self.say(platform, f"m{number}.")

    async def begin_anew(self) -> None:
        for platform in self.said:
            await self.say(platform, "/new")

    def texts(self, platform: str) -> list[str]:
        match platform:
            case "telegram":
                return self.telegram.texts(ANN)
            case "slack":
                return self.slack.texts("D7")
            case _:
                return self.discord.texts("97")

    def answers(self, platform: str) -> Counter[str]:
        """Return how often each message is answered, as people see it."""
        texts = self.texts(platform)
        return Counter(said for text in texts for said in self.said[platform] if f"answer to {said}" in _plain(text))

    def given_up(self, platform: str) -> int:
        """How many answers people were told to be interrupted: a turn is taken over three times, and not for ever."""
        return sum("was interrupted" in text for text in self.texts(platform))

    async def stop(self) -> None:
        """Let people leave answers that were interrupted, so that what waits behind them goes on."""
        for platform, left in self.left.items():
            for _ in range(self.given_up(platform) - left):
                self.left[platform] += 1
                await self.say(platform, "/stop")

    @property
    def behind(self) -> int:
        """How many messages have no answer, on the platform where most have none."""
        return max(len(said) - len(self.answers(platform)) for platform, said in self.said.items())

    @property
    def card(self) -> SentMessage | None:
        return next((each for each in self.telegram.messages if "Approve" in each.buttons), None)

    async def until(self, server: Serving, found: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while not (seen := found()):
                await asyncio.sleep(0.05)
            return seen

    async def pair(self, server: Serving, user: str, texts: Any) -> None:
        text = (await self.until(server, texts))[0]
        code = text.split("Your code is ")[1][:8]
        done = await server.client.post("/api/v1/channels/pair", json={"code": code, "user": user})
        assert done.status_code == 200, done.text


def _plain(text: str) -> str:
    return text.replace("\\", "")


async def _in_doubt(server: Serving) -> set[str]:
    found = await server.client.get("/api/v1/channels/deliveries", params={"status": "in_doubt", "limit": 1_000})
    return {each["source"] for each in found.json()["deliveries"] if each["channel"] != "slack"}


async def _begin(server: Serving, world: Platforms) -> None:
    """Let ann be paired everywhere, and bob ask for something that needs an approval."""
    for name in ("ann", "bob"):
        added = await server.client.post("/api/v1/users", json={"name": name, "role": "operator"})
        assert added.status_code == 201, added.text
    await world.until(server, lambda: world.slack.sockets and world.discord.sockets)
    world.telegram.write(ANN, "hello")
    await world.pair(server, "ann", lambda: world.telegram.texts(ANN))
    await world.slack.write("U7", "hello")
    await world.pair(server, "ann", lambda: world.slack.texts("D7"))
    await world.discord.write("7", "hello")
    await world.pair(server, "ann", lambda: world.discord.texts("97"))
    world.telegram.write(BOB, "hello")
    await world.pair(server, "bob", lambda: world.telegram.texts(BOB))
    world.telegram.write(BOB, "deploy it")
    await world.until(server, lambda: world.card)


@pytest.mark.slow
@pytest.mark.proves("A33-093", "C17")
@pytest.mark.parametrize("round_", range(ROUNDS))
async def test_kills_while_people_write_lose_nothing_and_answer_nothing_twice(tmp_path: Path, round_: int) -> None:
    seed = random.randrange(2**32)
    print(f"round {round_}, seed {seed}")
    chance = random.Random(seed)
    async with (
        ScriptedModel(answering) as model,
        TelegramStandIn() as telegram,
        SlackStandIn() as slack,
        DiscordStandIn() as discord,
    ):
        channels = {
            "telegram": {"token": "env:TG", "api_base": telegram.api_base},
            "slack": {"token": "env:SLACK_BOT", "app_token": "env:SLACK_APP", "api_base": slack.api_base},
            "discord": {"token": "env:DISCORD", "api_base": discord.api_base},
        }
        fabric = Fabric(tmp_path, settings(model.base_url, channels=channels), environment=TOKENS)
        world = Platforms(telegram, slack, discord)
        for number in range(KILLS):
            async with serving(fabric) as server:
                if number == 0:
                    await _begin(server, world)
                if number % NEW_EVERY == NEW_EVERY - 1:
                    await world.begin_anew()
                await asyncio.sleep(chance.uniform(0.0, 0.6))
                await world.write(number)
                card = world.card
                assert card is not None
                for outsider in (ANN, OUTSIDER):  # ann does not see what bob's run asks
                    telegram.press(outsider, card, "Approve")
                await asyncio.sleep(chance.uniform(0.0, 0.9))
                await world.stop()
                await world.until(server, lambda: world.behind <= MAX_BEHIND)
                await server.kill()
        async with serving(fabric) as server:
            await _all_answered(server, world)
            card = world.card
            assert card is not None
            assert "approved" not in card.text
            telegram.press(BOB, card, "Approve")
            await world.until(server, lambda: "approved by bob" in card.text)
            await world.until(server, lambda: any("deployed" in text for text in telegram.texts(BOB)))
    report("kills of a server while people write to it on three platforms", KILLS)


async def _all_answered(server: Serving, world: Platforms) -> None:
    """Wait until everything is answered, and look whether it is so once."""
    doubts = set[str]()
    accounts = {"telegram": str(BOT_ID), "discord": discord_standin.BOT, "slack": f"T1.{slack_standin.BOT}"}

    def missing() -> list[tuple[str, str]]:
        return [
            (platform, said)
            for platform, all_said in world.said.items()
            for said, key in all_said.items()
            if not world.answers(platform)[said] and run_of_message(platform, accounts[platform], key) not in doubts
        ]

    async def wait() -> None:
        nonlocal doubts
        while unexplained():
            await asyncio.sleep(0.5)
            await world.stop()
            doubts = await _in_doubt(server)

    def unexplained() -> list[tuple[str, str]]:
        lost = missing()
        told = {platform: world.given_up(platform) for platform in world.said}
        return [each for each in lost if sum(other[0] == each[0] for other in lost) > told[each[0]]]

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(wait(), PATIENCE_S)
    assert unexplained() == []
    await asyncio.sleep(3.0)  # what would come twice would come within this time
    for platform in world.said:
        twice = {said: count for said, count in world.answers(platform).items() if count > 1}
        assert twice == {}, (platform, twice)
    lost = missing()
    doubted = sum(len(said) - len(world.answers(platform)) for platform, said in world.said.items()) - len(lost)
    report("answers that may not have arrived, and were named as in doubt", doubted)
    report("answers that were interrupted three times, and the person was told", len(lost))
