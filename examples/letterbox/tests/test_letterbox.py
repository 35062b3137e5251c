import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent_fabric.extend import Accepted, ButtonPress, Channel, Inbound, InboundMessage, NotReached, Part, Place

from letterbox.channel import Letterbox, open_letterbox


async def no_secret(reference: str) -> str:
    raise AssertionError(reference)


def opened(folder: Path) -> Letterbox:
    channel: Channel = open_letterbox({"folder": str(folder)}, no_secret, None)
    assert isinstance(channel, Letterbox)
    return channel


async def received(channel: Letterbox, count: int) -> list[Inbound]:
    found: list[Inbound] = []
    all_there = asyncio.Event()

    async def take(news: Sequence[Inbound]) -> None:
        found.extend(news)
        if len(found) >= count:
            all_there.set()

    receiving = asyncio.create_task(channel.receive(take))
    async with asyncio.timeout(10):
        await all_there.wait()
    receiving.cancel()
    return found


async def test_a_letter_becomes_a_message_and_another_one_presses_a_button(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "ann.1.txt").write_text("hello")
    (inbox / "ann.2.txt").write_text("press 1a2b approve")
    message, press = await received(opened(tmp_path), 2)
    assert isinstance(message, InboundMessage)
    assert (message.sender.id, message.place.chat, message.text) == ("ann", "ann", "hello")
    assert isinstance(press, ButtonPress)
    assert (press.message_id, press.data) == ("1a2b", "approve")


async def test_a_part_is_one_letter_however_often_it_is_sent(tmp_path: Path) -> None:
    channel, part = opened(tmp_path), Part(source="run", place=Place("letterbox", "letters", "ann"), text="hi")
    assert isinstance(await channel.trace(part), NotReached)
    first, second = await channel.send(part), await channel.send(part)
    assert isinstance(first, Accepted)
    assert first == second == await channel.trace(part)
    (letter,) = (tmp_path / "outbox/ann").iterdir()
    assert letter.read_text() == "hi"
