"""Files that people send, and files of answers (CH-16)."""

import asyncio
from dataclasses import replace

import pytest

from agent_fabric.application.channels.receive_files import ReceiveFiles
from agent_fabric.domain.channels.addresses import Place, Sender, run_of_message
from agent_fabric.domain.channels.deliveries import DeliveryStatus, PartKind
from agent_fabric.domain.channels.files import MAX_FILE_IN, MAX_FILES_IN
from agent_fabric.domain.channels.inbound import InboundFile
from agent_fabric.domain.errors import RunFileNotFound, StoreUnavailable
from agent_fabric.testing.fakes import FrozenClock
from scripted_channel import ScriptedChannel
from unit.application.channels.world import World

PHOTO = InboundFile(file_id="f1", name="../photo\u202e.jpg", size=4)


async def _waiting(world: World) -> list[str]:
    held = await world.store.conversations.find(Place("scripted", "1", "7"))
    assert held is not None
    return [each.content for each in await world.storage.message_queue.list(held.session_id)]


async def test_a_photo_becomes_a_file_of_the_session_and_its_turn_is_labelled() -> None:
    world = World()
    await world.add("ann")
    world.channel.files["f1"] = b"data"
    said = await world.write("What is this?", files=(PHOTO,))
    [text] = await _waiting(world)
    run_id = run_of_message("scripted", "1", said.key)
    [file] = await world.store.files.list(run_id)
    assert (file.content, file.path in text) == (b"data", True)
    assert file.path.startswith("inbox/")
    assert file.path.endswith("-photo.jpg")
    held = await world.store.conversations.find(said.place)
    assert held is not None
    [message] = await world.storage.message_queue.list(held.session_id)
    sent = ["files sent on scripted"]
    assert message.asked["quotes"] == {"own_words": "What is this?", "untrusted": sent, "private": sent}
    assert message.asked["has_files"] is True


async def test_a_file_without_a_word_is_a_message_too() -> None:
    world = World()
    await world.add("ann")
    world.channel.files["f1"] = b"data"
    await world.write("", files=(PHOTO,))
    [text] = await _waiting(world)
    assert text.startswith("I sent you these files.")


@pytest.mark.parametrize(
    "file",
    [replace(PHOTO, file_id="gone"), replace(PHOTO, size=MAX_FILE_IN + 1)],
    ids=["gone", "too large"],
)
async def test_who_sends_what_cannot_be_had_is_told_so(file: InboundFile) -> None:
    world = World()
    await world.add("ann")
    world.channel.files["f1"] = b"data"
    await world.write("", files=(file,))
    assert "I did not get photo.jpg" in world.texts[-1]
    assert await _waiting(world) == []
    await world.write("Look.", files=(file,))
    assert await _waiting(world) == ["Look."]


async def test_what_a_stranger_sends_is_not_even_fetched() -> None:
    world = World()
    world.channel.files["f1"] = b"data"
    await world.write("", files=(PHOTO,))
    assert world.storage.count("channel_files") == 0
    assert "Your code is" in world.texts[0]


async def test_an_old_message_keeps_its_files_until_somebody_says_yes() -> None:
    world = World()
    await world.add("ann")
    world.channel.files["f1"] = b"data"
    said = await world.write("Still?", files=(PHOTO,), sent_at=world.clock.now() - 9_999)
    assert world.storage.count("channel_files") == 0
    [asked] = [each for each in world.channel.sent if each.buttons]
    await world.press(asked, "Do it")
    assert [each.content for each in await world.store.files.list(run_of_message("scripted", "1", said.key))] == [
        b"data"
    ]


async def test_a_slow_file_holds_up_nobody_else() -> None:
    world = World()
    await world.add("ann")
    await world.add("bob", number="8")
    world.channel.files["f1"] = b"data"
    world.channel.files_arrive.clear()
    await world.write("first", files=(PHOTO,))
    await world.write("second")
    await world.write("/status", number="8")
    assert "No conversation yet. Write something." in world.texts
    assert await _waiting(world) == []
    world.channel.files_arrive.set()
    await asyncio.sleep(0)
    await world.run.step()
    assert [each.partition("\n")[0] for each in await _waiting(world)] == ["first", "second"]
    await world.handle.fetch.aclose()


async def test_a_message_brings_only_so_many_files_and_so_much() -> None:
    channel = ScriptedChannel(files={"f": b"x" * 9})
    files = [replace(PHOTO, file_id="f")] * (MAX_FILES_IN + 1)
    found = await ReceiveFiles(FrozenClock(0.0))(channel, "k", files)
    assert found is not None
    assert (len(found.files), len({each.path for each in found.files})) == (MAX_FILES_IN, MAX_FILES_IN)
    assert found.problems == [f"I took the first {MAX_FILES_IN} files of {MAX_FILES_IN + 1}."]
    channel.files["f"] = b"x" * MAX_FILE_IN
    found = await ReceiveFiles(FrozenClock(0.0))(channel, "k", files[:4])
    assert found is not None
    assert (len(found.files), len(found.problems)) == (2, 2)


async def test_a_file_that_an_answer_names_is_sent_with_it() -> None:
    world = World()
    await world.add("ann")
    world.documents.files = {"report.pdf": b"%PDF", "other.txt": b"x"}
    said = await world.write("Make a report.")
    await world.ends(run_of_message("scripted", "1", said.key), "Here it is: [report](report.pdf).")
    [file] = [each for each in world.channel.sent if each.kind is PartKind.FILE]
    assert file.document is not None
    assert (file.document.name, file.document.content) == ("report.pdf", b"%PDF")
    assert "document" not in str((await world.sent_as(file)).facts)


async def test_a_file_that_is_too_large_is_named_with_where_to_get_it() -> None:
    world = World()
    await world.add("ann")
    world.documents.files = {"film.mp4": b"x" * 50_000_001}
    said = await world.write("Make a film.")
    await world.ends(run_of_message("scripted", "1", said.key), "See `film.mp4`.")
    assert "film.mp4 has 50.0 MB" in world.texts[-1]
    assert "fabric files" in world.texts[-1]


async def test_files_of_a_conversation_are_listed_and_sent_to_its_owner_only() -> None:
    world = World()
    await world.add("ann")
    await world.add("bob", number="8")
    await world.write("/files")
    assert world.texts[-1] == "There are no files in this conversation."
    said = await world.write("Make it.")
    world.documents.files = {"out/a.csv": b"1,2"}
    await world.ends(run_of_message("scripted", "1", said.key), "Done.")
    await world.write("/files")
    assert world.texts[-1] == "out/a.csv (0.1 KB)"
    for wanted in ("../a.csv", "b.csv"):
        await world.write(f"/files {wanted}")
        assert "There is no file" in world.texts[-1]
    await world.write("/files a.csv")
    sent = world.channel.sent[-1]
    assert sent.document is not None
    assert sent.document.content == b"1,2"
    await world.write("/files", number="8", place=Place("scripted", "1", "7"), sender=Sender("scripted", "1", "8"))
    assert "That did not work: This is a session of user:ann" in world.texts[-1]


async def test_a_file_that_is_gone_fails_with_a_word_and_one_that_is_busy_is_tried_again() -> None:
    world = World()
    await world.add("ann")
    world.documents.files = {"a.csv": b"1"}
    world.documents.problem = StoreUnavailable("the disk is slow")
    said = await world.write("Make it.")
    await world.ends(run_of_message("scripted", "1", said.key), "See `a.csv`.")
    [file] = [each for each in await world.store.deliveries.list(limit=999) if each.kind is PartKind.FILE]
    assert file.status is DeliveryStatus.QUEUED
    world.documents.problem = RunFileNotFound("it is gone")
    world.clock.time += 10
    await world.run.step()
    assert (await world.sent_as(file)).status is DeliveryStatus.FAILED
    assert "I could not send a.csv" in world.texts[-1]
