"""Discord over real sockets, against a stand-in with its format (CH-6, CH-7, CH-8, CH-11, CH-12, CH-14, CH-17)."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.application.ports.channels import ChannelState
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import (
    Accepted,
    AnswerLost,
    Button,
    NotReached,
    Part,
    PartKind,
    Refused,
    Throttled,
)
from agent_fabric.domain.channels.files import Document, FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, InboundFile, InboundMessage
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.channels.discord import CATCH_UP, DiscordChannel
from agent_fabric.infrastructure.channels.discord_wire import Bot, nonce_of, read_dispatch
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.testing.channel_faults import ChannelFault
from standins.discord_standin import BOT, TOKEN, DiscordStandIn, until_linked
from unit.infrastructure.channels.test_slack import Inbox

PLACE = Place("discord", BOT, "97")
FILE = Document("answer.md", b"# long")
PART = Part(source="run", place=PLACE, text="**hi**", plain="hi")
CARD = Part(
    source="approval:1",
    place=PLACE,
    kind=PartKind.CARD,
    text="May it? **",
    plain="May it? **",
    buttons=(Button("Approve", "v1.a.x.y"),),
)


async def _token() -> str:
    return TOKEN


@asynccontextmanager
async def connected(
    inbox: Inbox, known: Mapping[str, str] | None = None, **more: Any
) -> AsyncIterator[tuple[DiscordStandIn, DiscordChannel]]:
    async def newest() -> Mapping[str, str]:
        return known or {}

    async with DiscordStandIn(**more) as discord:
        channel = DiscordChannel(_token, SystemClock(), newest, api_base=discord.api_base, back_off_s=(0.01,))
        receiving = asyncio.ensure_future(channel.receive(inbox))
        try:
            async with asyncio.timeout(60):
                await until_linked(discord)
            yield discord, channel
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            await channel.aclose()


async def test_a_session_is_resumed_from_the_last_message_that_is_durable() -> None:
    inbox = Inbox()
    async with connected(inbox) as (discord, channel):
        await discord.write("7", "hello")
        message = await inbox.next()
        assert isinstance(message, InboundMessage)
        assert (message.text, message.place, message.sender) == ("hello", PLACE, Sender("discord", BOT, "7"))
        inbox.failures = 1
        await discord.write("7", "the store is away")
        assert (await inbox.next()).key != message.key
        assert discord.opened == ["identify", "resume"]
        await discord.drop()
        await discord.write("7", "nobody listens")
        last = await inbox.next()
        assert isinstance(last, InboundMessage)
        assert last.text == "nobody listens"
        assert [each.key for each in inbox.came] == [each["id"] for each in discord.inbox]
        assert channel.status.state is ChannelState.CONNECTED


async def test_chats_are_read_when_there_is_nothing_to_resume() -> None:
    inbox, known = Inbox(), dict[str, str]()
    async with connected(inbox, known) as (discord, _):
        await discord.write("7", "first")
        known["97"] = (await inbox.next()).key
        discord.keeps_sessions = False
        await discord.drop()
        await discord.write("7", "second")
        missed = await inbox.next()
        assert isinstance(missed, InboundMessage)
        assert (missed.text, missed.place.is_direct) == ("second", True)
        assert discord.opened == ["identify", "identify"]


async def test_chats_are_read_to_the_end_whatever_fails_meanwhile() -> None:
    inbox, known = Inbox(), {"97": "1"}
    async with connected(inbox, known) as (discord, _):
        await discord.write("7", "first")
        known["97"] = (await inbox.next()).key
        discord.keeps_sessions = False
        discord.script.fail("GET messages", ChannelFault.ERROR, ChannelFault.ERROR)
        await discord.drop()
        wanted = [f"missed {number}" for number in range(CATCH_UP + 5)]
        for text in wanted:
            await discord.write("7", text)
        async with asyncio.timeout(20):
            while len({each.key for each in inbox.came}) <= len(wanted):
                await asyncio.sleep(0.01)
        texts = [each.text for each in inbox.came if isinstance(each, InboundMessage)]
        assert list(dict.fromkeys(texts)) == ["first", *wanted]  # what is written meanwhile may come twice
        assert discord.script.is_spent
        assert "resume" not in discord.opened


async def test_a_connection_that_fell_silent_is_made_again() -> None:
    inbox = Inbox()
    async with connected(inbox, heartbeat_ms=50) as (discord, _):
        await asyncio.sleep(0.3)
        assert discord.opened == ["identify"]
        await discord.write("7", "hello")
        assert isinstance(await inbox.next(), InboundMessage)


async def test_parts_cards_edits_and_files_arrive() -> None:
    async with connected(Inbox()) as (discord, channel):
        assert isinstance(await channel.send(PART), Accepted)
        body = discord.messages[0]
        assert (body["content"], body["allowed_mentions"], body["flags"]) == ("**hi**", {"parse": []}, 4)
        card = await channel.send(CARD)
        assert isinstance(card, Accepted)
        assert discord.buttons(discord.messages[1]) == {"Approve": "v1.a.x.y"}
        assert discord.messages[1]["content"] == r"May it? \*\*"
        edit = Part(source="approval:1", place=PLACE, kind=PartKind.EDIT, text="no", plain="no", edits=card.message_id)
        assert isinstance(await channel.send(edit), Accepted)
        assert (discord.messages[1]["content"], discord.buttons(discord.messages[1])) == ("no", {})
        file = Part(source="run", number=1, place=PLACE, kind=PartKind.FILE, plain="The whole answer", document=FILE)
        assert isinstance(await channel.send(file), Accepted)
        assert (discord.messages[2]["content"], discord.messages[2]["document"]) == ("The whole answer", b"# long")


async def test_a_press_is_acknowledged_and_answered_to_the_one_who_pressed() -> None:
    inbox = Inbox()
    async with connected(inbox) as (discord, channel):
        await channel.send(CARD)
        await discord.press("8", discord.messages[0], "Approve")
        press = await inbox.next()
        assert isinstance(press, ButtonPress)
        assert (press.sender.id, press.data, press.message_id) == ("8", "v1.a.x.y", discord.messages[0]["id"])
        async with asyncio.timeout(60):
            while not discord.deferred:
                await asyncio.sleep(0.01)
        await channel.answer(press, "not yours")
        assert [(each["content"], each["flags"]) for each in discord.whispers] == [("not yours", 64)]


async def test_what_is_known_after_each_fault_and_a_nonce_makes_no_second_message() -> None:
    async with connected(Inbox()) as (discord, channel):
        discord.faults = ["throttle", "error", "cut_before"]
        assert await channel.send(PART) == Throttled(0.5)
        assert isinstance(await channel.send(PART), AnswerLost)
        assert isinstance(await channel.send(PART), AnswerLost)
        assert discord.messages == []
        discord.faults = ["cut_after"]
        assert isinstance(await channel.send(PART), AnswerLost)
        assert isinstance(await channel.trace(replace(PART, next_at=time.time())), Accepted)
        assert len(discord.messages) == 1
        discord.faults = ["403"]
        assert isinstance(await channel.send(PART), Refused)
        discord.faults = ["spent"]
        spent = await channel.send(CARD)
        assert isinstance(spent, Accepted)
        assert spent.rest_s == 0.5
    assert isinstance(await channel.send(PART), NotReached)
    assert isinstance(await channel.trace(replace(PART, next_at=time.time())), AnswerLost)
    await channel.aclose()
    assert len(nonce_of(PART)) == 25


async def test_when_the_nonce_is_forgotten_the_chat_is_read() -> None:
    async with connected(Inbox()) as (discord, channel):
        old = replace(PART, text=" **hi** ", next_at=time.time() - 200)
        assert isinstance(await channel.trace(old), NotReached)
        await discord.write("7", "**hi**")  # the same words of somebody else
        assert isinstance(await channel.trace(old), NotReached)
        sent = await channel.send(replace(PART, source="other"))
        assert isinstance(sent, Accepted)
        assert await channel.trace(old) == Accepted(sent.message_id)
        assert isinstance(await channel.trace(replace(old, next_at=time.time() - 500)), Accepted)
        file = replace(PART, kind=PartKind.FILE, plain="**hi**", document=FILE, next_at=old.next_at)
        assert isinstance(await channel.trace(file), NotReached)
        await channel.send(file)
        assert isinstance(await channel.trace(file), Accepted)
        for _ in range(100):
            await discord.write("7", "and so on")
        assert isinstance(await channel.trace(replace(old, text="gone")), AnswerLost)
        discord.script.fail("GET messages", ChannelFault.ERROR)
        assert isinstance(await channel.trace(old), AnswerLost)
        assert len(discord.messages) == 2


async def test_a_refused_token_stops_it_with_the_remedy() -> None:
    async def wrong() -> str:
        return "wrong"

    async def nothing() -> Mapping[str, str]:
        return {}

    async with DiscordStandIn() as discord:
        channel = DiscordChannel(wrong, SystemClock(), nothing, api_base=discord.api_base)
        with pytest.raises(ConfigError) as refused:
            await channel.receive(Inbox())
        assert "channels.discord.token" in refused.value.hint
        evil = InboundFile(file_id="https://evil.example/x", name="a", size=1)
        assert await channel.download(evil, max_bytes=10) == FileProblem("it is not at Discord")
        await channel.aclose()


@pytest.mark.parametrize(
    ("more", "addressed", "is_bot"),
    [
        ({}, False, False),
        ({"mentions": [{"id": BOT}], "content": f"<@{BOT}> hi"}, True, False),
        ({"referenced_message": {"author": {"id": BOT}, "content": "before"}}, True, False),
        ({"referenced_message": {"author": {"id": "9"}, "content": "orders"}}, False, False),
        ({"author": {"id": "5", "bot": True}}, False, True),
        ({"webhook_id": "1"}, False, True),
    ],
    ids=["said", "mention", "reply", "reply to another", "bot", "webhook"],
)
def test_who_is_addressed_in_a_server(more: dict[str, Any], addressed: bool, is_bot: bool) -> None:
    data = {"id": "1", "channel_id": "5", "guild_id": "1", "author": {"id": "7"}, "content": "hi", "timestamp": "x"}
    message = read_dispatch("MESSAGE_CREATE", {**data, **more}, Bot(BOT, "1"))
    assert isinstance(message, InboundMessage)
    assert (message.is_addressed, message.is_bot, message.place.is_direct) == (addressed, is_bot, False)
    assert message.text == "hi"
    assert message.quoted == ("orders" if "orders" in str(more) else "")
