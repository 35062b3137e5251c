"""Answers that grow in a chat (CH-10)."""

from dataclasses import replace

import pytest

from agent_fabric.application.channels.preview_turns import BELOW, EVERY_S, Streaming
from agent_fabric.application.channels.relay_answers import INTERRUPTED
from agent_fabric.domain.channels.addresses import run_of_message
from agent_fabric.domain.channels.deliveries import (
    DOUBT_NOTE,
    AnswerLost,
    DeliveryStatus,
    NotReached,
    PartKind,
    Refused,
    Throttled,
)
from agent_fabric.domain.channels.rendering import SLACK, WHATSAPP
from agent_fabric.domain.events import Event, RunInterrupted, RunWaited
from agent_fabric.domain.ids import RunId
from contract.run_repository_contract import completed, log, run_created
from unit.application.channels.world import World


async def _begun(streaming: Streaming = Streaming.EDIT) -> tuple[World, RunId]:
    """Let ann ask, and her turn be under way for a second."""
    world = World(streaming=streaming)
    await world.add("ann")
    said = await world.write("Explain it.")
    run_id = run_of_message("scripted", "1", said.key)
    held = await world.store.conversations.find(said.place)
    assert held is not None
    created = replace(run_created(), session=held.session_id, owner="user:ann")
    await (await world.storage.runs.create(run_id, log(created))).release()
    await _pass(world, 1)
    return world, run_id


async def _pass(world: World, seconds: float) -> None:
    world.clock.time += seconds
    await world.run.step()


async def _end(world: World, run_id: RunId, answer: str) -> None:
    held = (await world.storage.runs.take(run_id)).held
    await held.append(log(completed(run_id, answer), first=1))
    await held.release()
    await _pass(world, 2)
    await _pass(world, 2)


def _edits(world: World) -> list[str]:
    return [each.text for each in world.channel.sent if each.kind is PartKind.EDIT]


async def test_a_quick_answer_has_no_preview() -> None:
    world, run_id = await _begun()
    await _end(world, run_id, "done")
    assert world.texts == ["done"]


async def test_a_growing_answer_is_one_message_that_ends_as_the_answer() -> None:
    world, run_id = await _begun()
    await _pass(world, 3)
    assert world.texts == ["Thinking …"]
    for written in ("It **is**", "It **is** so", "It **is** so"):
        world.so_far = written
        await _pass(world, EVERY_S)
    assert _edits(world) == ["It is\n…", "It is so\n…"]
    await _end(world, run_id, "It **is** so.")
    assert _edits(world)[-1] == "It is so."
    assert len([each for each in world.channel.sent if each.kind is not PartKind.EDIT]) == 1
    assert {each.edits for each in world.channel.sent if each.kind is PartKind.EDIT} == {"m1"}


async def test_progress_shows_no_answer_before_its_time_and_off_shows_nothing() -> None:
    for streaming, shown in ((Streaming.PROGRESS, ["Thinking …"]), (Streaming.OFF, [])):
        world, run_id = await _begun(streaming)
        world.so_far = "It is"
        for _ in range(3):
            await _pass(world, 3)
        assert world.texts[:1] == shown
        assert not any("It is" in each for each in world.texts)
        await _end(world, run_id, "It is so.")
        assert world.texts[-1] == "It is so."


async def test_what_waits_for_somebody_is_not_changed_all_the_time() -> None:
    world, run_id = await _begun()
    held = (await world.storage.runs.take(run_id)).held
    await held.append([Event(1, 1.0, None, "", RunWaited(reason="approval", approvals=("a",)))])
    await held.release()
    for _ in range(60):
        await _pass(world, 60)
    assert world.texts == ["Waiting for an approval …"] * len(world.texts)
    assert len(world.texts) <= 2
    other, _ = await _begun()
    for _ in range(70):
        await _pass(other, 2)
    assert other.texts[-1] == "Thinking (2 min) …"
    assert len(other.texts) < 12


async def test_where_nothing_can_be_edited_nothing_is_shown_before() -> None:
    world, run_id = await _begun()
    world.channel.rendering = WHATSAPP
    await _pass(world, 9)
    assert world.texts == []
    await _end(world, run_id, "done")
    assert world.texts == ["done"]


async def test_the_other_parts_of_a_long_answer_are_messages_of_their_own() -> None:
    world, run_id = await _begun()
    await _pass(world, 3)
    await _end(world, run_id, "\n\n".join("x" * 3_000 for _ in range(3)))
    for _ in range(4):
        await _pass(world, 2)
    kinds = [each.kind for each in world.channel.sent]
    assert kinds == [PartKind.TEXT, PartKind.EDIT, PartKind.TEXT, PartKind.TEXT]


async def test_an_answer_that_an_edit_cannot_hold_stands_below() -> None:
    world, run_id = await _begun()
    world.channel.rendering = SLACK
    await _pass(world, 3)
    answer = "ü" * 2_500  # 2,500 characters, 5,000 bytes
    await _end(world, run_id, answer)
    assert _edits(world) == [BELOW]
    assert answer in world.texts


@pytest.mark.parametrize(
    "lost", [AnswerLost("?"), NotReached("?"), Throttled(1.0), Refused("?")], ids=lambda o: type(o).__name__
)
async def test_a_preview_that_fails_makes_no_message_and_the_answer_arrives_once(lost: object) -> None:
    world, run_id = await _begun()
    await _pass(world, 3)
    world.so_far = "It is"
    world.channel.outcomes = [lost]  # type: ignore[list-item]
    await _pass(world, EVERY_S)
    await _end(world, run_id, "It is so.")
    assert [each.text for each in world.channel.sent].count("It is so.") == 1
    new = [each.text for each in world.channel.sent if each.kind is not PartKind.EDIT]
    # After an edit that may still arrive, the answer has a message of its own; else it takes the place of the preview.
    assert new == ["Thinking …", "It is so."] if isinstance(lost, AnswerLost) else ["Thinking …"]


async def test_a_preview_in_doubt_is_nobodys_business_and_the_answer_is_a_message() -> None:
    world, run_id = await _begun()
    world.channel.outcomes = [AnswerLost("?")]
    await _pass(world, 3)
    await _end(world, run_id, "done")
    assert world.texts == ["Thinking …", "done"]
    await world.write("/resend")
    assert world.texts[-1] == "Everything has arrived, as far as I know."


async def test_a_preview_that_did_not_go_in_time_does_not_go_at_all() -> None:
    world, run_id = await _begun()
    world.channel.outcomes = [Throttled(60.0)]
    await _pass(world, 3)
    await _end(world, run_id, "done")
    await _pass(world, 90)
    assert world.texts == ["Thinking …", "done"]
    assert [each.status for each in await world.store.deliveries.of_source(run_id)] == ["expired", "sent"]


async def test_a_final_edit_that_is_refused_makes_no_message_but_a_word_and_one_on_request() -> None:
    world, run_id = await _begun()
    await _pass(world, 3)
    world.channel.outcomes = [Refused("message to edit not found")]
    await _end(world, run_id, "done")
    await _pass(world, 2)
    assert world.texts == ["Thinking …", "done", DOUBT_NOTE]
    for said in ("I send 1 again.", "Everything has arrived, as far as I know."):
        await world.write("/resend")
        await _pass(world, 3)
        assert said in world.texts
    sent = [each for each in world.channel.sent if each.text == "done" and each.kind is PartKind.TEXT]
    assert len(sent) == 1


async def test_who_waits_for_an_answer_that_is_not_taken_up_again_is_told_once() -> None:
    world, run_id = await _begun(Streaming.OFF)
    held = (await world.storage.runs.take(run_id)).held
    await held.append([Event(1, 1.0, None, "", RunInterrupted(reason="taken over 3 times"))])
    await held.release()
    for _ in range(3):
        await _pass(world, 2)
    assert world.texts == [INTERRUPTED]
    await world.write("/new")  # it is left in the conversation that it belongs to
    await world.write("/stop")
    await _pass(world, 2)
    assert (world.texts[-1], world.stopped) == ("I leave it.", [run_id])


async def test_a_server_that_dies_meanwhile_leaves_one_answer() -> None:
    world, run_id = await _begun()
    await _pass(world, 3)
    born = World(born_of=world, streaming=Streaming.EDIT)
    await born.run.deliver.recover()
    await _end(born, run_id, "done")
    assert [each.kind for each in world.channel.sent] == [PartKind.TEXT, PartKind.EDIT]
    statuses = {each.status for each in await world.store.deliveries.of_source(run_id)}
    assert statuses == {DeliveryStatus.SENT}
