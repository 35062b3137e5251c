"""Slack over real sockets, against a stand-in with its format (CH-6, CH-7, CH-11, CH-14, CH-17)."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

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
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile, InboundMessage
from agent_fabric.domain.errors import ConfigError, ServerBusy, StoreUnavailable
from agent_fabric.infrastructure.channels.slack import PAGE, SlackChannel
from agent_fabric.infrastructure.channels.slack_wire import Bot, method_for, read_delivery, read_envelope
from agent_fabric.infrastructure.clock import SystemClock
from standins.slack_standin import APP_TOKEN, BOT, TOKEN, SlackStandIn, until_linked

ACCOUNT = f"T1.{BOT}"
PLACE = Place("slack", ACCOUNT, "D7")
FILE = Document("answer.md", b"# long")
PART = Part(source="run", place=PLACE, text="*hi*", plain="hi")
CARD = Part(
    source="approval:1",
    place=PLACE,
    kind=PartKind.CARD,
    text="May it?",
    plain="May it?",
    buttons=(Button("Approve", "v1.a.x.y"),),
)


class Inbox:
    """Takes what comes; the first times it cannot."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.came: list[Inbound] = []
        self.something = asyncio.Event()

    async def __call__(self, inbound: Sequence[Inbound]) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("not now")
        self.came += inbound
        self.something.set()

    async def next(self) -> Inbound:
        async with asyncio.timeout(60):
            await self.something.wait()
        self.something.clear()
        return self.came[-1]


async def _token() -> str:
    return TOKEN


async def _app_token() -> str:
    return APP_TOKEN


async def _none_known() -> Mapping[str, str]:
    return {}


@asynccontextmanager
async def connected(
    inbox: Inbox, known: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[SlackStandIn, SlackChannel]]:
    async def newest() -> Mapping[str, str]:
        return known or {}

    async with SlackStandIn() as slack:
        channel = SlackChannel(
            _token, _app_token, SystemClock(), newest, api_base=slack.api_base, back_off_s=(0.01,), trace_after_s=0.01
        )
        receiving = asyncio.ensure_future(channel.receive(inbox))
        try:
            async with asyncio.timeout(60):
                await until_linked(slack)
            yield slack, channel
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            await channel.aclose()


async def test_nothing_is_acknowledged_before_it_is_durable_and_a_new_socket_brings_it_again() -> None:
    inbox = Inbox(failures=1)
    async with connected(inbox) as (slack, channel):
        await slack.write("U7", "hello &amp; &lt;goodbye&gt;")
        message = await inbox.next()
        assert isinstance(message, InboundMessage)
        assert (message.text, message.place, message.sender) == (
            "hello & <goodbye>",
            PLACE,
            Sender("slack", ACCOUNT, "U7"),
        )
        await slack.refresh()
        await slack.write("U7", f"<@{BOT}> and you?", chat="C1")
        mention = await inbox.next()
        assert isinstance(mention, InboundMessage)
        assert (mention.text, mention.is_addressed, mention.place.is_direct) == ("and you?", True, False)
        assert mention.place.thread == mention.message_id
        async with asyncio.timeout(60):
            while slack.unacknowledged:
                await asyncio.sleep(0.01)
        assert (channel.status.state, channel.status.account) == (ChannelState.CONNECTED, ACCOUNT)


async def test_what_slack_gave_up_on_is_read_from_the_history_once() -> None:
    inbox, known = Inbox(), dict[str, str]()
    async with connected(inbox, known) as (slack, _):
        await slack.write("U7", "first")
        known["D7"] = (await inbox.next()).key
        slack.faults["apps.connections.open"] = ["error"]
        for socket in list(slack.sockets):
            await socket.close()
        wanted = [f"missed {number}" for number in range(PAGE + 5)]
        for text in wanted:
            await slack.write("U7", text)
        slack.unacknowledged.clear()
        last = await slack.write("U7", "last")  # it comes as an event, too
        async with asyncio.timeout(10):
            while slack.unacknowledged or len(inbox.came) < len(wanted) + 3:
                await asyncio.sleep(0.01)
        texts = [each.text for each in inbox.came if isinstance(each, InboundMessage)]
        assert texts == ["first", *wanted, "last", "last"]
        assert inbox.came[-1].key == inbox.came[-2].key == f"D7 {last}"
        read = slack.script.calls.count("conversations.history")
        await slack.refresh()
        await slack.write("U7", "again")
        await inbox.next()
        assert slack.script.calls.count("conversations.history") == read, "nothing was missed, so nothing is read"


async def test_without_a_socket_the_token_is_looked_after_and_deliveries_are_read() -> None:
    async with SlackStandIn() as slack:
        channel = SlackChannel(_token, None, SystemClock(), _none_known, api_base=slack.api_base, back_off_s=(0.01,))
        slack.faults["auth.test"] = ["error", "invalid_auth"]
        with pytest.raises(ServerBusy):
            await channel.identity()
        with pytest.raises(ConfigError):
            await channel.receive(Inbox())
        receiving = asyncio.ensure_future(channel.receive(Inbox()))
        async with asyncio.timeout(60):
            while channel.status.state is not ChannelState.CONNECTED:
                await asyncio.sleep(0.01)
        assert await channel.identity() == Bot("T1", BOT)
        assert slack.sockets == []
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        await channel.aclose()


def test_texts_of_our_own_mention_nobody() -> None:
    part = Part(source="in:1", place=PLACE, text="You wrote <!channel> & more", plain="You wrote <!channel> & more")
    assert method_for(part).body["text"] == "You wrote &lt;!channel&gt; &amp; more"
    card = method_for(replace(CARD, text="a <b", plain="a <b")).body
    assert (card["text"], card["blocks"][0]["text"]["text"]) == ("a &lt;b", "a <b")


@pytest.mark.parametrize(
    ("named", "is_ours"),
    [
        ({"team_id": "T1"}, True),
        ({"team_id": "T2"}, False),
        ({"team_id": "T2", "authorizations": [{"team_id": "T1"}]}, True),
        ({"team": {"id": "T2"}}, False),
        ({}, True),
    ],
)
def test_another_workspace_is_not_ours(named: dict[str, object], is_ours: bool) -> None:
    event = {"type": "message", "channel_type": "im", "user": "U7", "channel": "D7", "text": "hi", "ts": "1.0"}
    payload = {"type": "event_callback", "event_id": "E1", "event": event, **named}
    assert (read_delivery(payload, Bot("T1", BOT)) is not None) is is_ours


async def test_parts_cards_edits_and_files_arrive() -> None:
    async with connected(Inbox()) as (slack, channel):
        sent = await channel.send(PART)
        assert isinstance(sent, Accepted)
        card = await channel.send(CARD)
        assert isinstance(card, Accepted)
        assert slack.buttons(slack.messages[1]) == {"Approve": "v1.a.x.y"}
        edit = Part(source="approval:1", place=PLACE, kind=PartKind.EDIT, text="no", plain="no", edits=card.message_id)
        assert isinstance(await channel.send(edit), Accepted)
        assert (slack.messages[1]["text"], slack.buttons(slack.messages[1])) == ("no", {})
        file = Part(source="run", number=1, place=PLACE, kind=PartKind.FILE, plain="The whole answer", document=FILE)
        assert isinstance(await channel.send(file), Accepted)
        assert list(slack.uploads.values()) == [b"# long"]


async def test_a_press_says_who_pressed_what_and_is_answered_to_them_alone() -> None:
    inbox = Inbox()
    async with connected(inbox) as (slack, channel):
        await channel.send(CARD)
        await slack.press("U8", slack.messages[0], "Approve")
        press = await inbox.next()
        assert isinstance(press, ButtonPress)
        assert (press.sender.id, press.data, press.message_id) == ("U8", "v1.a.x.y", slack.messages[0]["ts"])
        await channel.answer(press, "not yours")
        assert [(each["user"], each["text"]) for each in slack.whispers] == [("U8", "not yours")]


async def test_what_is_known_after_each_fault() -> None:
    async with connected(Inbox()) as (slack, channel):
        slack.faults["chat.postMessage"] = ["throttle", "error", "cut_before", "cut_after", "channel_not_found"]
        assert await channel.send(PART) == Throttled(1.0)
        assert isinstance(await channel.send(PART), AnswerLost)
        assert isinstance(await channel.send(PART), AnswerLost)
        assert isinstance(await channel.trace(PART), NotReached)
        assert isinstance(await channel.send(PART), AnswerLost)
        assert await channel.trace(PART) == Accepted(slack.messages[0]["ts"])
        assert isinstance(await channel.send(PART), Refused)
        assert len(slack.messages) == 1
    assert isinstance(await channel.send(PART), NotReached)
    await channel.aclose()


async def test_a_refused_token_stops_it_with_the_remedy() -> None:
    async def wrong() -> str:
        return "xoxb-wrong"

    async with SlackStandIn() as slack:
        channel = SlackChannel(wrong, _app_token, SystemClock(), _none_known, api_base=slack.api_base)
        with pytest.raises(ConfigError) as refused:
            await channel.receive(Inbox())
        assert "channels.slack.token" in refused.value.hint
        await channel.aclose()


async def test_a_token_goes_to_nobody_but_slack() -> None:
    async with connected(Inbox()) as (slack, channel):
        slack.uploads["F1"] = b"data"
        good = InboundFile(file_id=f"{slack.api_base.removesuffix('/api')}/files/F1", name="a", size=4)
        assert await channel.download(good, max_bytes=10) == b"data"
        assert await channel.download(good, max_bytes=3) == FileProblem("it is too large")
        for elsewhere in ("https://evil.example/x", "http://files.slack.com/x", f"http://a@127.0.0.1:{slack.port}/x"):
            evil = InboundFile(file_id=elsewhere, name="a", size=1)
            assert await channel.download(evil, max_bytes=10) == FileProblem("it is not at Slack")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message", "channel": "D7", "user": BOT, "text": "x", "ts": "1", "channel_type": "im"},
        {"type": "message", "channel": "D7", "user": "U7", "text": "x", "ts": "1", "subtype": "message_changed"},
        {"type": "message", "channel": "C1", "user": "U7", "text": f"<@{BOT}> x", "ts": "1", "channel_type": "channel"},
        {"type": "message", "channel": "D7", "text": "x", "ts": "1", "channel_type": "im"},
        {"type": "reaction_added", "user": "U7"},
    ],
    ids=["own", "changed", "mention, which comes twice", "no author", "other"],
)
def test_what_is_not_for_us_is_left_alone(event: dict[str, str]) -> None:
    envelope = {"type": "events_api", "envelope_id": "e", "payload": {"event": event, "event_id": "Ev1"}}
    assert read_envelope(envelope, Bot("T1", BOT)) is None


def test_other_bots_are_bots() -> None:
    event = {
        "type": "message",
        "channel": "D7",
        "user": "U7",
        "bot_id": "B",
        "text": "x",
        "ts": "1",
        "channel_type": "im",
    }
    envelope = {"type": "events_api", "envelope_id": "e", "payload": {"event": event, "event_id": "Ev1"}}
    message = read_envelope(envelope, Bot("T1", BOT))
    assert isinstance(message, InboundMessage)
    assert message.is_bot
