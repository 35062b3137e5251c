"""Every method of every platform × everything that goes wrong with a request, over real sockets (CH-18).

What is promised: a message that may have arrived is never taken for one that has not, a wait is exactly as long as the
platform says, what people write comes in whatever fails before, and nothing but a refused credential ends a channel.
"""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from agent_fabric.application.channels.receive_files import ReceiveFiles
from agent_fabric.application.ports.channels import BringsFiles, Channel, ChannelState
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import Accepted, AnswerLost, NotReached, Part, PartKind, Throttled
from agent_fabric.domain.channels.files import Document, FileProblem
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile
from agent_fabric.infrastructure.channels import discord_wire
from agent_fabric.infrastructure.channels.calls import PlatformCalls
from agent_fabric.infrastructure.channels.discord import DiscordChannel
from agent_fabric.infrastructure.channels.slack import SlackChannel
from agent_fabric.infrastructure.channels.telegram import TelegramChannel
from agent_fabric.infrastructure.channels.whatsapp import WhatsAppChannel
from agent_fabric.testing import telegram_standin
from agent_fabric.testing.channel_faults import ChannelFault, FaultScript
from agent_fabric.testing.telegram_standin import TelegramStandIn
from memory_storage import MemoryStorage
from standins import discord_standin, slack_standin, whatsapp_standin
from standins.discord_standin import DiscordStandIn
from standins.slack_standin import SlackStandIn
from standins.whatsapp_standin import WhatsAppStandIn

ALL = tuple(ChannelFault)
BEFORE_ANSWER = (ChannelFault.ERROR, ChannelFault.THROTTLE, ChannelFault.CUT_BEFORE)
"""What can happen to a socket that is being opened."""
HAPPENED = (ChannelFault.CUT_AFTER, ChannelFault.SLOW, ChannelFault.MALFORMED)
"""Faults after which the effect is there."""
PRESS = "v1.a.x.y"


class HastyClock:
    """A clock that waits for nothing, and remembers how long it should have."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.005)


@dataclass
class Taken:
    came: list[Inbound] = field(default_factory=list)

    async def __call__(self, inbound: Sequence[Inbound]) -> None:
        self.came += inbound


@dataclass
class Bench:
    """A platform, and a channel that talks to it."""

    channel: Channel
    script: FaultScript
    clock: HastyClock
    place: Place
    write: Callable[[], Any]
    """Lets a person write."""
    made: Callable[[], int]
    """How many messages there are."""
    file: InboundFile
    """What somebody has sent: the bytes `data`."""

    @property
    def part(self) -> Part:
        return Part(source="run", place=self.place, text="hi", plain="hi")


def _secret(value: str) -> Callable[[], Any]:
    async def find() -> str:
        return value

    return find


async def _known_on_discord() -> Mapping[str, str]:
    return {"97": "1"}


async def _known_on_slack() -> Mapping[str, str]:
    return {"D7": "D7 1.000001"}


@asynccontextmanager
async def telegram(timeout_s: float, base: str = "") -> AsyncIterator[Bench]:
    async with TelegramStandIn() as stand_in:
        clock = HastyClock()
        channel = TelegramChannel(
            _secret(telegram_standin.TOKEN), clock, api_base=base or stand_in.api_base, poll_s=1, timeout_s=timeout_s
        )
        stand_in.files["documents/a"] = b"data"
        yield Bench(
            channel,
            stand_in.script,
            clock,
            Place("telegram", str(telegram_standin.BOT_ID), "7"),
            lambda: stand_in.write(7, "hello"),
            lambda: len(stand_in.messages),
            InboundFile(file_id="documents/a", name="a", size=4),
        )
        await channel.aclose()


@asynccontextmanager
async def slack(timeout_s: float, base: str = "") -> AsyncIterator[Bench]:
    async with SlackStandIn() as stand_in:
        clock = HastyClock()
        tokens = _secret(slack_standin.TOKEN), _secret(slack_standin.APP_TOKEN)
        channel = SlackChannel(*tokens, clock, _known_on_slack, api_base=base or stand_in.api_base, timeout_s=timeout_s)
        stand_in.uploads["F1"] = b"data"
        yield Bench(
            channel,
            stand_in.script,
            clock,
            Place("slack", f"T1.{slack_standin.BOT}", "D7"),
            lambda: stand_in.write("U7", "hello"),
            lambda: len(stand_in.messages),
            InboundFile(file_id=f"http://127.0.0.1:{stand_in.port}/files/F1", name="a", size=4),
        )
        await channel.aclose()


@asynccontextmanager
async def discord(timeout_s: float, base: str = "") -> AsyncIterator[Bench]:
    async with DiscordStandIn() as stand_in:
        clock = HastyClock()
        channel = DiscordChannel(
            _secret(discord_standin.TOKEN),
            clock,
            _known_on_discord,
            api_base=base or stand_in.api_base,
            timeout_s=timeout_s,
        )
        channel._bot = discord_wire.Bot(discord_standin.BOT, discord_standin.APPLICATION)
        stand_in.files["1"] = b"data"
        yield Bench(
            channel,
            stand_in.script,
            clock,
            Place("discord", discord_standin.BOT, "97"),
            lambda: stand_in.write("7", "hello"),
            lambda: len(stand_in.messages),
            InboundFile(file_id=f"http://127.0.0.1:{stand_in.port}/attachments/1", name="a", size=4),
        )
        await channel.aclose()


@asynccontextmanager
async def whatsapp(timeout_s: float, base: str = "") -> AsyncIterator[Bench]:
    async with WhatsAppStandIn() as stand_in:
        clock = HastyClock()
        number = whatsapp_standin.NUMBER
        channel = WhatsAppChannel(
            _secret(whatsapp_standin.TOKEN),
            clock,
            phone_number_id=number,
            api_base=base or stand_in.api_base,
            timeout_s=timeout_s,
        )
        stand_in.media["9000099"] = ("a", b"data")
        yield Bench(
            channel,
            stand_in.script,
            clock,
            Place("whatsapp", number, "4917"),
            lambda: None,
            lambda: len(stand_in.messages),
            InboundFile(file_id="9000099", name="a", size=4),
        )
        await channel.aclose()


Open = Callable[..., AbstractAsyncContextManager[Bench]]
PLATFORMS: Mapping[str, Open] = {"telegram": telegram, "slack": slack, "discord": discord, "whatsapp": whatsapp}
TELLS = {"slack", "discord"}
"""Platforms that tell what became of a message."""

# What makes or changes a message: the method, and the kind of part that uses it.
SENDING = [
    ("telegram", "sendMessage", PartKind.TEXT),
    ("telegram", "editMessageText", PartKind.EDIT),
    ("telegram", "sendDocument", PartKind.FILE),
    ("slack", "chat.postMessage", PartKind.TEXT),
    ("slack", "chat.update", PartKind.EDIT),
    ("slack", "files.completeUploadExternal", PartKind.FILE),
    ("discord", "POST messages", PartKind.TEXT),
    ("discord", "PATCH messages", PartKind.EDIT),
    ("discord", "POST messages", PartKind.FILE),
    ("whatsapp", "POST messages", PartKind.TEXT),
    ("whatsapp", "POST messages", PartKind.FILE),
]
# What only prepares one: nobody sees it, so nothing is in doubt.
PREPARING = [
    ("slack", "files.getUploadURLExternal"),
    ("slack", "upload"),
    ("whatsapp", "POST media"),
]
RECEIVING = [
    ("telegram", "getMe", ALL),
    ("telegram", "deleteWebhook", ALL),
    ("telegram", "getUpdates", ALL),
    ("slack", "auth.test", ALL),
    ("slack", "apps.connections.open", ALL),
    ("slack", "link", BEFORE_ANSWER),
    ("slack", "conversations.history", ALL),
    ("discord", "GET gateway/bot", ALL),
    ("discord", "GET gateway", BEFORE_ANSWER),
    ("discord", "GET messages", ALL),
    ("whatsapp", "GET", ALL),
]
ANSWERING = [
    ("telegram", "answerCallbackQuery"),
    ("slack", "chat.postEphemeral"),
    ("discord", "POST webhooks"),
    ("whatsapp", "POST messages"),
]
FETCHING = [
    ("telegram", "getFile", ALL),
    ("telegram", "file", ALL[:-1]),  # what comes instead of a file looks like a file
    ("slack", "files", ALL[:-1]),
    ("discord", "GET attachments", ALL[:-1]),
    ("whatsapp", "GET", ALL),
    ("whatsapp", "GET download", ALL[:-1]),
]


def _patience(fault: ChannelFault) -> float:
    return 0.15 if fault is ChannelFault.SLOW else 10.0


async def _as(bench: Bench, kind: PartKind) -> Part:
    part = replace(bench.part, kind=kind)
    if kind is PartKind.FILE:
        return replace(part, document=Document("answer.txt", b"all of it"))
    if kind is PartKind.EDIT:
        sent = await bench.channel.send(bench.part)
        assert isinstance(sent, Accepted)
        return replace(part, text="changed", plain="changed", edits=sent.message_id)
    return part


@pytest.mark.parametrize(("platform", "method", "kind"), SENDING, ids=str)
async def test_sending(platform: str, method: str, kind: PartKind) -> None:
    for fault in ALL:
        async with PLATFORMS[platform](_patience(fault)) as bench:
            part = await _as(bench, kind)
            before = bench.made()
            bench.script.fail(method, fault)
            outcome = await bench.channel.send(part)
            wanted = Throttled if fault is ChannelFault.THROTTLE else AnswerLost
            assert isinstance(outcome, wanted), (fault, outcome)
            if isinstance(outcome, Throttled):
                assert outcome.retry_after_s == (60.0 if platform == "whatsapp" else 3.0)
            made = bench.made() - before
            assert made == int(fault in HAPPENED and kind is not PartKind.EDIT), fault
            if isinstance(outcome, AnswerLost) and kind is not PartKind.EDIT:
                await _settles_the_doubt(platform, bench, part, made)


async def _settles_the_doubt(platform: str, bench: Bench, part: Part, made: int) -> None:
    found = await bench.channel.trace(replace(part, next_at=bench.clock.now()))
    if platform not in TELLS or (platform == "slack" and part.kind is PartKind.FILE):
        assert isinstance(found, AnswerLost)
    elif platform == "slack":
        assert isinstance(found, Accepted if made else NotReached)
        assert bench.made() == made
    else:
        assert isinstance(found, Accepted)
        assert bench.made() == 1


@pytest.mark.parametrize(("platform", "method"), PREPARING)
async def test_preparing(platform: str, method: str) -> None:
    for fault in ALL:
        async with PLATFORMS[platform](_patience(fault)) as bench:
            part = await _as(bench, PartKind.FILE)
            bench.script.fail(method, fault)
            outcome = await bench.channel.send(part)
            if fault is ChannelFault.THROTTLE and method != "upload":
                assert isinstance(outcome, Throttled), outcome
            elif fault is ChannelFault.MALFORMED and method == "upload":
                assert isinstance(outcome, Accepted)  # nobody reads that answer
                continue
            else:
                assert isinstance(outcome, NotReached), (fault, outcome)
            assert bench.made() == 0


@pytest.mark.parametrize(("platform", "kind"), [(each[0], each[2]) for each in SENDING if each[2] is not PartKind.EDIT])
async def test_where_nobody_listens_nothing_can_have_arrived(platform: str, kind: PartKind) -> None:
    async with PLATFORMS[platform](1.0, "http://127.0.0.1:9") as bench:
        assert isinstance(await bench.channel.send(await _as(bench, kind)), NotReached)


@pytest.mark.parametrize(("platform", "method", "faults"), RECEIVING, ids=lambda each: str(each)[:30])
async def test_receiving(platform: str, method: str, faults: Sequence[ChannelFault]) -> None:
    for fault in faults:
        async with PLATFORMS[platform](_patience(fault)) as bench, asyncio.timeout(20):
            bench.script.slow_s = 0.3
            bench.script.fail(method, fault)
            taken = Taken()
            task = asyncio.create_task(bench.channel.receive(taken))
            status = bench.channel.status
            if platform == "telegram":
                bench.write()
            while not bench.script.is_spent or status.state is not ChannelState.CONNECTED:
                assert not task.done(), fault
                await asyncio.sleep(0.005)
            if platform in {"slack", "discord"}:
                await bench.write()
            while platform != "whatsapp" and not taken.came:
                assert not task.done(), fault
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert len({each.key for each in taken.came}) == int(platform != "whatsapp")
            if fault is ChannelFault.THROTTLE and platform != "whatsapp" and method not in {"link", "GET gateway"}:
                assert 3.0 in bench.clock.slept, bench.clock.slept


@pytest.mark.parametrize(("platform", "method"), ANSWERING)
async def test_a_press_that_cannot_be_answered_ends_nothing(platform: str, method: str) -> None:
    for fault in ALL:
        async with PLATFORMS[platform](_patience(fault)) as bench:
            sender = Sender(bench.place.channel, bench.place.account, "7")
            press = ButtonPress(
                key="1", place=bench.place, sender=sender, data=PRESS, message_id="1", answer_id="a", sent_at=0.0
            )
            bench.script.fail(method, fault)
            await bench.channel.answer(press, "not yours")
            assert bench.script.is_spent
            await bench.channel.answer(press, "not yours")


@pytest.mark.parametrize(("platform", "method", "faults"), FETCHING, ids=lambda each: str(each)[:30])
async def test_files_are_fetched_again(platform: str, method: str, faults: Sequence[ChannelFault]) -> None:
    for fault in faults:
        async with PLATFORMS[platform](_patience(fault)) as bench:
            assert isinstance(bench.channel, BringsFiles)
            bench.script.fail(method, fault)
            fetch = ReceiveFiles(bench.clock)
            async with asyncio.timeout(20):
                while (found := await fetch(bench.channel, "k", [bench.file])) is None:
                    pass
            assert ([each.content for each in found.files], found.problems) == ([b"data"], []), fault
            assert bench.script.is_spent


async def test_what_comes_twice_or_in_another_order_is_there_once() -> None:
    for platform in ("telegram", "slack", "discord"):
        async with PLATFORMS[platform](10.0) as bench, asyncio.timeout(20):
            taken, storage = Taken(), MemoryStorage()
            log = storage.channels.inbound
            task = asyncio.create_task(bench.channel.receive(taken))
            while bench.channel.status.state is not ChannelState.CONNECTED:
                await asyncio.sleep(0.005)
            for _ in range(3):
                said = bench.write()
                if asyncio.iscoroutine(said):
                    await said
            while len({each.key for each in taken.came}) < 3:
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await log.add(taken.came[::-1], now=1.0)
            assert await log.add(taken.came, now=2.0) == 0
            assert storage.count("channel_inbox") == 3


async def test_what_grows_while_it_is_unpacked_is_stopped() -> None:
    async def bomb(_: web.Request) -> web.Response:
        body = gzip.compress(bytes(64_000_000))
        return web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})

    app = web.Application()
    app.router.add_get("/", bomb)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    calls = PlatformCalls()
    found = await calls.download(f"http://127.0.0.1:{runner.addresses[0][1]}/", {}, max_bytes=1_000_000)
    assert found == FileProblem("it is too large")
    await calls.aclose()
    await runner.cleanup()
