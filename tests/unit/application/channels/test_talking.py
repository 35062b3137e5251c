"""A person on a channel talks to sessions (CH-2 … CH-6, CH-8, CH-11)."""

from dataclasses import replace

import pytest

from agent_fabric.domain.channels.addresses import run_of_message
from agent_fabric.domain.channels.deliveries import AnswerLost, DeliveryStatus, NotReached, Throttled
from agent_fabric.domain.channels.inbound import MAX_WAITING, ChatMoved
from agent_fabric.domain.errors import AccountNotFound, ChannelNotFound, Forbidden, PairingNotFound
from agent_fabric.domain.identity.accounts import User, UserChange
from agent_fabric.domain.identity.principals import Kind, Principal, Role, Scope, widen
from unit.application.channels.world import GROUP, World

ROOT = Principal("root", Kind.LOCAL, widen((Scope.ADMIN,)))


def _run_of(key: str) -> str:
    return run_of_message("scripted", "1", key)


async def test_a_stranger_gets_a_code_once_and_reaches_no_model() -> None:
    world = World()
    await world.write("do something dangerous")
    await world.write("hello?")
    assert len(world.texts) == 1
    assert "AAAAAAZY" in world.texts[0]
    assert await world.storage.all_sessions() == []


async def test_a_paired_person_is_the_user_without_being_admin_and_until_disabled() -> None:
    world = World()
    await world.write("hello")
    await world.storage.users.add(User(name="ann", role=Role.ADMIN), act=None)
    person = await world.people.pair("aaaa-aazy", "ann", by=ROOT)
    by = await world.people.principal(person.sender)
    assert by is not None
    assert (by.id, by.may(Scope.ADMIN), by.may(Scope.APPROVALS)) == ("user:ann", False, True)
    said = await world.write("now?")
    assert any(text.startswith("You are ann here") for text in world.texts)
    [session] = await world.storage.all_sessions()
    assert session.owner == "user:ann"
    assert _run_of(said.key) in world.storage.owed
    await world.storage.users.change("ann", UserChange(disabled=True), keep_an_admin=False, act=None)
    before = len(world.texts)
    await world.write("and now?")
    assert len(world.texts) == before
    assert len(world.storage.owed) == 1


async def test_only_an_admin_pairs_and_only_with_a_user_and_a_living_code() -> None:
    world = World()
    await world.write("hello")
    member = Principal("bob", Kind.USER, widen((Scope.RUNS,)))
    with pytest.raises(Forbidden):
        await world.people.pair("AAAAAAZY", "ann", by=member)
    with pytest.raises(Forbidden):
        await world.people.pair("AAAAAAZY", "ann", by=replace(ROOT, run="r"))
    with pytest.raises(AccountNotFound):
        await world.people.pair("AAAAAAZY", "ann", by=ROOT)
    await world.add("eve", number="8")
    with pytest.raises(PairingNotFound):
        await world.people.pair("ZZZZZZZZ", "eve", by=ROOT)
    with pytest.raises(ChannelNotFound, match="'eve' is not paired on discord"):
        await world.people.unpair("eve", channel="discord", by=ROOT)
    assert [each.user for each in await world.people.unpair("eve", by=ROOT)] == ["eve"]


async def test_an_answer_comes_once_even_if_everything_is_done_again() -> None:
    world = World()
    await world.add("ann")
    said = await world.write("what is it?")
    await world.ends(_run_of(said.key), "**it** works")  # type: ignore[arg-type]  # it is a run's id
    await world.store.inbound.add([said], now=1.0)
    await world.run.step()
    assert world.texts == ["it works"]
    assert world.storage.owed == {}


async def test_messages_wait_in_order_and_the_one_too_many_is_declined() -> None:
    world = World()
    await world.add("ann")
    for number in range(MAX_WAITING + 1):
        await world.write(f"message {number}")
    [session] = await world.storage.all_sessions()
    waiting = await world.storage.message_queue.list(session.session_id)
    assert [each.content for each in waiting] == [f"message {number}" for number in range(MAX_WAITING)]
    assert "wait already" in world.texts[-1]


async def test_commands() -> None:
    world = World()
    await world.add("ann")
    await world.write("/start")
    await world.write("/status")
    await world.write("one")
    first = await world.store.conversations.find((await world.write("/status")).place)
    await world.write("/new")
    second = await world.store.conversations.find((await world.write("/stop")).place)
    assert first is not None
    assert second is not None
    assert first.session_id != second.session_id
    assert "/new begins" in world.texts[0]
    assert "No conversation" in world.texts[1]
    assert world.texts[-1] == "Nothing is under way."


async def test_a_viewer_looks_on() -> None:
    world = World()
    await world.add("ann", Role.VIEWER)
    await world.write("do it")
    assert "may look on" in world.texts[0]


async def test_in_a_group_only_a_paired_sender_who_means_the_bot_is_heard() -> None:
    world = World()
    await world.add("ann")
    await world.write("psst", place=GROUP)
    await world.write("bot, do it", place=GROUP, number="9", is_addressed=True)
    await world.write("robot", place=GROUP, is_addressed=True, is_bot=True)
    assert (world.texts, world.storage.owed) == ([], {})
    said = await world.write("bot, go", place=GROUP, is_addressed=True, quoted="obey me")
    assert _run_of(said.key) in world.storage.owed
    await world.store.inbound.add([ChatMoved(key="m", place=GROUP, to_chat="-100", sent_at=0.0)], now=1.0)
    await world.run.step()
    assert await world.store.conversations.find(replace(GROUP, chat="-100")) is not None


async def test_somebody_elses_conversation_in_a_group_is_not_taken_over() -> None:
    world = World()
    await world.add("ann")
    await world.add("bob", number="8")
    await world.write("bot, go", place=GROUP, is_addressed=True)
    await world.write("bot, stop that", place=GROUP, is_addressed=True, number="8")
    assert "session of user:ann" in world.texts[-1]


async def test_an_old_message_is_asked_about_and_only_its_writer_answers() -> None:
    world = World()
    await world.add("ann")
    await world.add("bob", number="8")
    said = await world.write("restart it", sent_at=world.clock.now() - 5 * 3_600)
    [question] = world.channel.sent
    assert "5 h ago" in question.text
    await world.press(question, "Do it", number="8")
    assert world.storage.owed == {}
    await world.press(question, "Do it")
    assert list(world.storage.owed) == [_run_of(said.key)]
    assert world.channel.sent[-1].edits
    await world.press(question, "Do it")
    assert list(world.storage.owed) == [_run_of(said.key)]


async def test_a_doubt_is_said_and_resent_only_when_wanted() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [AnswerLost("cut")]
    said = await world.write("hi")
    await world.ends(_run_of(said.key), "answer")  # type: ignore[arg-type]  # it is a run's id
    await world.run.step()
    assert world.texts[0] == "answer"
    assert "/resend" in world.texts[1]
    assert world.texts.count("answer") == 1
    await world.write("/resend")
    assert world.texts.count("answer") == 2


async def test_what_was_being_sent_in_a_crash_is_in_doubt() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [NotReached("down")]
    await world.write("/help")
    [part] = await world.store.deliveries.list()
    assert part.status is DeliveryStatus.QUEUED
    await world.store.outbox.begin(part, now=1.0)
    assert await world.run.deliver.recover() == 1
    assert (await world.sent_as(part)).status is DeliveryStatus.IN_DOUBT


async def test_a_429_is_waited_for_exactly() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [Throttled(17.0)]
    await world.write("/help")
    await world.run.step()
    assert len(world.texts) == 1
    world.clock.time += 17.0
    await world.run.step()
    assert len(world.texts) == 2
