"""Approvals on a channel (CH-14, CH-15, C17)."""

from dataclasses import replace

import pytest

from agent_fabric.application.channels.answer_press import NOT_YOURS
from agent_fabric.application.channels.manage_deliveries import ManageDeliveries
from agent_fabric.application.ports.approvals import Answer, ApprovalStatus
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import AnswerLost, DeliveryStatus, PartKind, Throttled
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.identity.principals import Role
from agent_fabric.domain.policy.calls import argument_hash
from long_calls import PLACES, script
from unit.application.channels.test_talking import ROOT
from unit.application.channels.world import World

ID = "abcd1234abcd"


async def _asked() -> World:
    world = World()
    await world.add("ann")
    await world.add("bob", Role.MEMBER, number="8")
    await world.asks(ID)
    return world


async def test_a_card_arrives_is_answered_and_says_by_whom() -> None:
    world = await _asked()
    [card] = world.channel.sent
    assert (card.kind, card.place.chat) == (PartKind.CARD, "7")
    assert "rm é" in card.text
    await world.press(card, "Approve")
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.APPROVED
    assert (await world.storage.approvals.find(ID)).decided_by == "ann"
    await world.run.step()
    edit = world.channel.sent[-1]
    assert (edit.kind, edit.buttons) == (PartKind.EDIT, ())
    assert "approved by ann" in edit.text
    before = len(world.texts)
    await world.run.step()
    assert len(world.texts) == before


async def test_a_question_that_is_answered_before_its_card_went_is_asked_no_more() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [Throttled(60.0)]
    await world.asks(ID)
    [card] = world.channel.sent
    await world.handle.press.decide(ID, Answer(decision=Decision.DENY, by="bob", via="page"), by=ROOT)
    world.clock.time += 61.0
    await world.run.step()
    assert world.channel.sent == [card]
    assert (await world.sent_as(card)).status is DeliveryStatus.EXPIRED
    manage = ManageDeliveries(world.store, world.storage.approvals, world.clock)
    with pytest.raises(InvalidInputs, match="answered"):
        await manage.resend(card.id, by=ROOT)


async def test_a_card_that_turns_out_to_have_arrived_says_by_whom_it_was_decided() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [AnswerLost("cut")]
    await world.asks(ID)
    [card] = world.channel.sent
    await world.handle.press.decide(ID, Answer(decision=Decision.DENY, by="bob", via="page"), by=ROOT)
    await world.run.step()
    await world.press(card, "Approve", message_id="77")
    await world.run.step()
    edit = world.channel.sent[-1]
    assert (edit.kind, edit.edits) == (PartKind.EDIT, "77")
    assert "denied by bob" in edit.text


async def test_the_wrong_thumb_gets_a_polite_no_and_the_card_stays() -> None:
    world = await _asked()
    [card] = world.channel.sent
    await world.press(card, "Approve", number="8")
    await world.press(card, "Approve", number="999")
    assert [said for _, said in world.channel.answers] == [NOT_YOURS] * 2
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.PENDING
    assert [act.deed for act in await world.storage.recorded_acts()] == ["channel_press_refused"] * 2
    await world.press(card, "Deny")
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.DENIED


async def test_forged_buttons_decide_nothing() -> None:
    world = await _asked()
    [card] = world.channel.sent
    for forged in (f"v1.a.{ID}.guessed", f"v1.a.{ID}", "v1.a.other.nonce1", "", "x" * 500):
        await world.press(card, forged)
    await world.press(card, "Approve", message_id="other")
    await world.press(card, "Approve", place=Place("scripted", "1", "8"))
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.PENDING


async def test_a_call_that_was_changed_behind_the_card_is_not_approved() -> None:
    world = await _asked()
    [card] = world.channel.sent
    world.storage.change_card(ID, args_hash="other")
    await world.press(card, "Approve")
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.PENDING


async def test_silence_expires_and_expired_is_not_run() -> None:
    world = await _asked()
    [card] = world.channel.sent
    world.clock.time += 3_600.0
    await world.press(card, "Approve")
    assert (await world.storage.approvals.find(ID)).status is not ApprovalStatus.APPROVED


async def test_a_card_whose_arrival_was_in_doubt_is_answered_all_the_same() -> None:
    world = World()
    await world.add("ann")
    world.channel.outcomes = [AnswerLost("cut")]
    await world.asks(ID)
    [card] = world.channel.sent
    assert (await world.sent_as(card)).status is DeliveryStatus.IN_DOUBT
    await world.press(card, "Approve", message_id="m1")
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.APPROVED
    assert (await world.sent_as(card)).status is DeliveryStatus.SENT


async def test_who_may_not_answer_is_not_asked() -> None:
    world = World()
    await world.add("bob", Role.MEMBER, number="8")
    await world.asks(ID)
    assert world.texts == []


@pytest.mark.parametrize("place", PLACES)
async def test_a_call_that_a_chat_cannot_show_is_denied_there_and_approved_elsewhere(place: str) -> None:
    world = World()
    await world.add("ann")
    args = {"command": script(100_000, place)}
    await world.asks(ID, args=args, args_hash=argument_hash(args), binding="b" * 64)
    [card] = world.channel.sent
    assert [each.label for each in card.buttons] == ["Deny"]
    assert "100,001 lines" in card.text
    await world.press(card, card.buttons[0].data.replace("v1.d.", "v1.a."))
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.PENDING, (
        "a button that was made up counts for nothing"
    )
    await world.press(card, "Deny")
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.DENIED


async def test_a_card_shows_the_call_that_ran_after_an_edit_elsewhere() -> None:
    world = await _asked()
    changed = Answer(decision=Decision.APPROVE, by="ann", via="page", args={"command": "rm ö"})
    await world.handle.press.decide(ID, changed, by=ROOT)
    await world.run.step()
    assert "not as asked but with:\n  rm ö" in world.channel.sent[-1].text


async def test_a_press_below_another_call_than_the_one_that_was_shown_is_refused() -> None:
    world = await _asked()
    [card] = world.channel.sent
    other = replace(card, facts={**card.facts, "binding": "c" * 64})
    await world.storage.change_part(other)
    await world.press(card, "Approve")
    assert (await world.storage.approvals.find(ID)).status is ApprovalStatus.PENDING
    assert "hash" in world.channel.answers[-1][1]
