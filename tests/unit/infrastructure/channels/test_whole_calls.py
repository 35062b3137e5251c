"""What a platform was sent of a call: all of it with *Approve*, or no *Approve*. Over sockets, to each stand-in."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest

from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import Channel
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.cards import CARD_LIMITS, make_card
from agent_fabric.domain.channels.deliveries import Accepted, PartKind
from agent_fabric.infrastructure.channels.telegram import TelegramChannel
from agent_fabric.infrastructure.channels.whatsapp import WhatsAppChannel
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.testing.telegram_standin import BOT_ID, TelegramStandIn
from agent_fabric.testing.telegram_standin import TOKEN as TELEGRAM_TOKEN
from long_calls import PLACES, script
from standins.whatsapp_standin import NUMBER, WhatsAppStandIn
from standins.whatsapp_standin import TOKEN as WHATSAPP_TOKEN
from unit.domain.channels.test_cards import CALL
from unit.infrastructure.channels import test_discord, test_slack


class Door(NamedTuple):
    """A channel that is connected to its stand-in."""

    channel: Channel
    place: Place
    messages: Sequence[object]
    """What the stand-in was given."""


async def _telegram_token() -> str:
    return TELEGRAM_TOKEN


async def _whatsapp_token() -> str:
    return WHATSAPP_TOKEN


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[Door]:
    match name:
        case "telegram":
            async with TelegramStandIn() as telegram:
                bot = TelegramChannel(_telegram_token, SystemClock(), api_base=telegram.api_base)
                yield Door(bot, Place("telegram", str(BOT_ID), "7"), telegram.messages)
                await bot.aclose()
        case "discord":
            async with test_discord.connected(test_slack.Inbox()) as (discord, to_discord):
                yield Door(to_discord, test_discord.PLACE, discord.messages)
        case "slack":
            async with test_slack.connected(test_slack.Inbox()) as (slack, to_slack):
                yield Door(to_slack, test_slack.PLACE, slack.messages)
        case _:
            async with WhatsAppStandIn() as whatsapp:
                phone = WhatsAppChannel(
                    _whatsapp_token, SystemClock(), phone_number_id=NUMBER, api_base=whatsapp.api_base
                )
                yield Door(phone, Place("whatsapp", NUMBER, "4917"), whatsapp.messages)
                await phone.aclose()


def said_in(message: object) -> str:
    """Return everything that a stand-in was told, without what a platform needs so that nothing becomes markup."""
    told = message if isinstance(message, dict) else {"text": getattr(message, "text", "")}
    return (
        json.dumps(told, ensure_ascii=False, default=str).replace("\\\\", "\\").replace("\\#", "#").replace("\\n", "\n")
    )


@pytest.mark.proves("WB-4")
@pytest.mark.parametrize("name", CARD_LIMITS)
async def test_a_call_arrives_whole_with_approve_or_without_it(name: str) -> None:
    async with opened(name) as door:
        for lines in (1, 30, 100, 403, 5_000):
            for place in PLACES:
                command = script(lines, place)
                card = make_card(
                    replace(CALL, args={"command": command}, binding="0123456789abcdef"),
                    "nonce",
                    limit=CARD_LIMITS[name],
                    size=door.channel.rendering.literal_size,
                )
                part = plain_part(f"{lines} {place}", door.place, card.text, at=0.0)
                sent = await door.channel.send(replace(part, kind=PartKind.CARD, buttons=card.buttons))
                assert isinstance(sent, Accepted), sent
                arrived = said_in(door.messages[-1])
                labels = [each.label for each in card.buttons]
                if labels == ["Approve", "Deny"]:
                    assert lines < 5_000
                    assert all(f"  {line}\n" in arrived for line in command.split("\n"))
                else:
                    assert (labels, lines > 1) == (["Deny"], True)
                    assert "does not fit here whole, so it cannot be approved here" in arrived
                    assert "fabric approvals show 0123456789ab" in arrived
                assert "Hash 0123456789ab." in arrived
        assert len(door.messages) == 15
