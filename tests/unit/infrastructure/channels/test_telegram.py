"""The Telegram channel against a stand-in over real sockets (CH-6, CH-7, CH-9, CH-11, CH-17, CH-18)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent_fabric.application.ports.channels import ChannelState
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import (
    Accepted,
    AnswerLost,
    Button,
    NotReached,
    Part,
    PartKind,
    Refused,
    Throttled,
    Unparsable,
)
from agent_fabric.domain.channels.files import Document, FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, ChatMoved, Inbound, InboundFile, InboundMessage
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.infrastructure.channels.telegram import TelegramChannel, TelegramWebhook
from agent_fabric.infrastructure.channels.telegram_wire import Bot, read_file_path, read_update
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.testing.telegram_standin import BOT_ID, TOKEN, USERNAME, Fault, TelegramStandIn

BOT = Bot(str(BOT_ID), USERNAME)
PLACE = Place("telegram", str(BOT_ID), "7")
FILE = Document("answer.md", b"# all")
PART = Part(source="run", place=PLACE, text="<b>hi</b> there", plain="hi there")


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramStandIn]:
    async with TelegramStandIn() as stand_in:
        yield stand_in


async def _token() -> str:
    return TOKEN


@pytest.fixture
async def channel(telegram: TelegramStandIn) -> AsyncIterator[TelegramChannel]:
    made = TelegramChannel(_token, SystemClock(), api_base=telegram.api_base, poll_s=1, back_off_s=(0.01,))
    yield made
    await made.aclose()


@dataclass(slots=True)
class Taken:
    """Takes what comes, and may fail first."""

    failures: int = 0
    came: list[Inbound] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, inbound: Sequence[Inbound]) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the disk is slow today")
        self.came += inbound
        self.changed.set()


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def _receiving(channel: TelegramChannel, taken: Taken, until: Callable[[], bool]) -> None:
    task = asyncio.create_task(channel.receive(taken))
    try:
        await _until(lambda: until() or task.done())
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_waits_is_taken_before_it_is_acknowledged(
    telegram: TelegramStandIn, channel: TelegramChannel
) -> None:
    telegram.write(7, "one")
    telegram.write(7, "two")
    taken = Taken(failures=2)
    await _receiving(channel, taken, lambda: telegram.waiting == [])
    assert [each.text for each in taken.came if isinstance(each, InboundMessage)] == ["one", "two"]
    assert channel.status.state is ChannelState.CONNECTED
    assert (channel.status.account, channel.status.name) == (str(BOT_ID), USERNAME)


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.THROTTLE])
async def test_a_poll_that_fails_loses_nothing(
    telegram: TelegramStandIn, channel: TelegramChannel, fault: Fault
) -> None:
    telegram.fail("getUpdates", fault)
    telegram.write(7, "one")
    taken = Taken()
    await _receiving(channel, taken, lambda: bool(taken.came))
    assert {each.key for each in taken.came} == {"1000"}


class Impatient(SystemClock):
    """A clock whose pauses are short."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.02))


async def _webhook_secret() -> str:
    return "shown-with-every-delivery-0123456789"


async def test_where_it_delivers_is_said_and_what_goes_wrong_is_seen(telegram: TelegramStandIn) -> None:
    webhook = TelegramWebhook("https://example.org/api/v1/channels/telegram", _webhook_secret)
    made = TelegramChannel(_token, Impatient(), api_base=telegram.api_base, webhook=webhook, back_off_s=(0.01,))
    telegram.fail("setWebhook", Fault.ERROR, Fault.CUT_BEFORE, Fault.THROTTLE)
    task = asyncio.create_task(made.receive(Taken()))
    try:
        await _until(lambda: made.status.state is ChannelState.CONNECTED)
        assert telegram.webhook["secret_token"] == await _webhook_secret()
        assert telegram.webhook["drop_pending_updates"] is False
        telegram.delivery_error = "Wrong response from the webhook: 502 Bad Gateway"
        await _until(lambda: "502 Bad Gateway" in made.status.problem)
        telegram.delivery_error = ""
        telegram.webhook["url"] = "https://somebody.else"
        await _until(lambda: telegram.webhook["url"] == webhook.url)
        await _until(lambda: made.status.state is ChannelState.CONNECTED)
        assert await made.identity() == BOT
        assert "getUpdates" not in telegram.calls
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.aclose()


@pytest.mark.parametrize("secret", ["tiny-one", "1234567890123456", "with spaces and more than sixteen"])
async def test_a_weak_secret_of_the_webhook_stops_the_channel(telegram: TelegramStandIn, secret: str) -> None:
    async def weak() -> str:
        return secret

    webhook = TelegramWebhook("https://example.org/api/v1/channels/telegram", weak)
    made = TelegramChannel(_token, SystemClock(), api_base=telegram.api_base, webhook=webhook)
    with pytest.raises(ConfigError) as refused:
        await made.receive(Taken())
    assert "webhook_secret" in refused.value.hint
    assert secret not in str(refused.value)
    await made.aclose()
    assert telegram.webhook == {}


async def test_a_second_poller_is_seen_and_survived(telegram: TelegramStandIn, channel: TelegramChannel) -> None:
    other = TelegramChannel(_token, SystemClock(), api_base=telegram.api_base, poll_s=1, back_off_s=(0.2,))
    intruder = asyncio.create_task(other.receive(Taken()))
    await _receiving(channel, Taken(), lambda: telegram.conflicts > 0)
    intruder.cancel()
    await asyncio.gather(intruder, return_exceptions=True)
    await other.aclose()
    assert "409" in channel.status.problem + other.status.problem


async def test_a_refused_token_stops_the_channel_with_the_remedy(
    telegram: TelegramStandIn, channel: TelegramChannel
) -> None:
    telegram.refuses_token = True
    with pytest.raises(ConfigError) as refused:
        await channel.receive(Taken())
    assert "BotFather" in refused.value.hint
    assert channel.status.state is ChannelState.REFUSED


@pytest.mark.parametrize(
    ("fault", "outcome", "arrived"),
    [
        (None, Accepted, 1),
        (Fault.CUT_AFTER, AnswerLost, 1),
        (Fault.CUT_BEFORE, AnswerLost, 0),
        (Fault.ERROR, AnswerLost, 0),
        (Fault.BLOCKED, Refused, 0),
        (Fault.THROTTLE, Throttled, 0),
    ],
)
async def test_what_is_known_after_a_part_was_sent(
    telegram: TelegramStandIn, channel: TelegramChannel, fault: Fault | None, outcome: type[object], arrived: int
) -> None:
    telegram.fail("sendMessage", *([fault] if fault else []))
    assert isinstance(await channel.send(PART), outcome)
    assert telegram.texts(7) == ["hi there"] * arrived


async def test_where_nobody_listens_nothing_can_have_arrived(channel: TelegramChannel) -> None:
    nowhere = TelegramChannel(_token, SystemClock(), api_base="http://127.0.0.1:9")
    assert isinstance(await nowhere.send(PART), NotReached)
    await nowhere.aclose()


async def test_markup_that_telegram_refuses_is_told_apart(telegram: TelegramStandIn, channel: TelegramChannel) -> None:
    assert isinstance(await channel.send(replace(PART, text="<b>hi")), Unparsable)
    assert isinstance(await channel.send(replace(PART, text="hi there")), Accepted)


async def test_a_card_is_edited_in_its_place_and_again_without_harm(
    telegram: TelegramStandIn, channel: TelegramChannel
) -> None:
    card = replace(PART, kind=PartKind.CARD, text="May it?", plain="May it?", buttons=(Button("Yes", "v1.a.x.y"),))
    sent = await channel.send(card)
    assert isinstance(sent, Accepted)
    edit = replace(card, kind=PartKind.EDIT, text="Yes, ann", plain="Yes, ann", buttons=(), edits=sent.message_id)
    assert await channel.send(edit) == sent
    assert await channel.send(edit) == sent
    [message] = telegram.messages
    assert (message.text, message.buttons, message.edits) == ("Yes, ann", {}, 1)


async def test_a_file_of_somebody_is_fetched_within_the_limits_and_its_address_is_never_shown(
    telegram: TelegramStandIn, channel: TelegramChannel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    telegram.files |= {"documents/a": b"data", "documents/big": b"x" * 21 * 1024 * 1024}

    async def fetched(path: str, max_bytes: int = 10) -> bytes | FileProblem:
        return await channel.download(InboundFile(file_id=path, name="a", size=None), max_bytes=max_bytes)

    assert await fetched("documents/a") == b"data"
    problems = [await fetched("documents/a", 3), await fetched("documents/gone"), await fetched("documents/big")]
    assert problems[0] == FileProblem("it is too large")
    assert all(isinstance(each, FileProblem) and not each.may_pass for each in problems)
    nowhere = TelegramChannel(_token, SystemClock(), api_base="http://127.0.0.1:9")
    lost = await nowhere.download(InboundFile(file_id="x", name="a", size=1), max_bytes=10)
    await nowhere.aclose()
    assert isinstance(lost, FileProblem)
    assert TOKEN not in caplog.text + str(problems) + str(lost)


@pytest.mark.parametrize(
    "path", ["../../bot1:x/getMe", "/etc/passwd", "a?b=c", "a b", "", None, "http://evil/x", "a/../b"]
)
def test_a_path_that_leads_elsewhere_is_none(path: object) -> None:
    assert read_file_path({"ok": True, "result": {"file_path": path}}) is None


async def test_a_long_answer_is_a_file(telegram: TelegramStandIn, channel: TelegramChannel) -> None:
    assert isinstance(await channel.send(replace(PART, kind=PartKind.FILE, plain="", document=FILE)), Accepted)
    assert telegram.messages[0].document == b"# all"


async def test_a_press_comes_and_is_answered_to_its_person(telegram: TelegramStandIn, channel: TelegramChannel) -> None:
    await channel.send(replace(PART, buttons=(Button("Yes", "data"),)))
    telegram.press(8, telegram.messages[0], "Yes")
    taken = Taken()
    await _receiving(channel, taken, lambda: bool(taken.came))
    [press] = taken.came
    assert isinstance(press, ButtonPress)
    assert (press.sender.id, press.data, press.message_id) == ("8", "data", "1")
    await channel.answer(press, "not yours")
    assert telegram.answers[0]["text"] == "not yours"


async def test_the_token_is_never_logged(
    telegram: TelegramStandIn, channel: TelegramChannel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    telegram.fail("getUpdates", Fault.CUT_BEFORE, Fault.ERROR)
    telegram.fail("sendMessage", Fault.CUT_BEFORE)
    lost = await channel.send(PART)
    await _receiving(channel, Taken(), lambda: channel.status.state is ChannelState.CONNECTED)
    assert "stand-in-token" not in caplog.text + repr(lost) + channel.status.problem


def test_who_writes_where_and_to_whom() -> None:
    group = {"id": -5, "type": "supergroup"}
    said = {"message_id": 3, "date": 9, "chat": group, "from": {"id": 7}, "text": f"🙂 @{USERNAME} go"}
    mention = {"type": "mention", "offset": 3, "length": len(USERNAME) + 1}
    read = read_update({"update_id": 1, "message": {**said, "entities": [mention]}}, BOT)
    assert isinstance(read, InboundMessage)
    assert (read.is_addressed, read.place.is_direct, read.sender.id) == (True, False, "7")
    plain = read_update({"update_id": 1, "message": said}, BOT)
    assert isinstance(plain, InboundMessage)
    assert not plain.is_addressed
    reply = {**said, "reply_to_message": {"from": {"id": BOT_ID}, "text": "mine"}}
    answered = read_update({"update_id": 1, "message": reply}, BOT)
    assert isinstance(answered, InboundMessage)
    assert (answered.is_addressed, answered.quoted) == (True, "")
    assert read_update({"update_id": 1, "message": {**said, "sender_chat": {"id": -5}}}, BOT) is None
    moved = read_update({"update_id": 2, "message": {"chat": group, "date": 1, "migrate_to_chat_id": -100}}, BOT)
    assert isinstance(moved, ChatMoved)
    assert moved.to_chat == "-100"


@pytest.mark.parametrize(
    "broken", [{}, {"update_id": 1}, {"update_id": 1, "message": []}, {"update_id": 1, "message": {}}]
)
def test_what_telegram_never_sends_does_no_harm(broken: dict[str, object]) -> None:
    assert read_update(broken, BOT) is None
