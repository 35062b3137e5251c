"""What is known about a part that went out (CH-11), and how fast parts go (CH-12)."""

from dataclasses import replace

import pytest

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import (
    LASTS_S,
    Accepted,
    AnswerLost,
    DeliveryStatus,
    NotReached,
    Part,
    PartKind,
    Refused,
    Throttled,
    Unparsable,
    after_crash,
    settle,
)
from agent_fabric.domain.channels.pacing import TELEGRAM_PACES, Pacer

PLACE = Place("telegram", "42", "7")
PART = Part(source="run", place=PLACE, text="<b>x</b>", plain="x", created_at=0.0)


def test_an_answer_that_was_lost_is_a_doubt_and_never_repeated() -> None:
    assert settle(PART, AnswerLost("cut"), now=1).status is DeliveryStatus.IN_DOUBT
    assert after_crash(replace(PART, status=DeliveryStatus.SENDING), now=1).status is DeliveryStatus.IN_DOUBT


def test_an_edit_may_be_repeated() -> None:
    assert settle(replace(PART, kind=PartKind.EDIT), AnswerLost("cut"), now=1).status is DeliveryStatus.QUEUED


def test_what_did_not_leave_is_tried_again_until_it_is_too_old() -> None:
    first = settle(PART, NotReached("refused"), now=1)
    assert (first.status, first.next_at) == (DeliveryStatus.QUEUED, 2.0)
    late = settle(replace(PART, attempts=50), NotReached("refused"), now=LASTS_S)
    assert late.status is DeliveryStatus.EXPIRED


def test_markup_that_cannot_be_parsed_goes_as_plain_text_once() -> None:
    first = settle(PART, Unparsable("bad tag"), now=1)
    assert (first.status, first.as_plain) == (DeliveryStatus.QUEUED, True)
    assert settle(replace(PART, text="x"), Unparsable("bad tag"), now=1).status is DeliveryStatus.FAILED


def test_the_rest_is_as_the_platform_says() -> None:
    assert settle(PART, Accepted("9"), now=1).message_id == "9"
    assert settle(PART, Refused("blocked"), now=1).status is DeliveryStatus.FAILED
    waits = settle(PART, Throttled(17.0), now=1)
    assert (waits.next_at, waits.counts) == (18.0, False)


def test_a_chat_gets_one_a_second_and_another_chat_does_not_wait() -> None:
    pacer = Pacer(TELEGRAM_PACES)
    pacer.note(PLACE, 10.0)
    assert pacer.free_at(PLACE, 10.0) == 11.0
    assert pacer.free_at(replace(PLACE, chat="8"), 10.0) == 10.0


def test_a_group_gets_twenty_a_minute_and_an_account_thirty_a_second() -> None:
    pacer = Pacer(TELEGRAM_PACES)
    group = Place("telegram", "42", "-1", is_direct=False)
    for at in range(20):
        pacer.note(group, float(at))
    assert pacer.free_at(group, 20.0) == 60.0
    busy = Pacer(TELEGRAM_PACES)
    for chat in range(30):
        busy.note(Place("telegram", "42", str(chat)), 5.0)
    assert busy.free_at(Place("telegram", "42", "new"), 5.0) == 6.0


@pytest.mark.parametrize("whole", [False, True])
def test_a_429_closes_its_own_bucket_only(whole: bool) -> None:
    pacer = Pacer(TELEGRAM_PACES)
    pacer.close(PLACE, 99.0, whole_account=whole)
    assert pacer.free_at(PLACE, 1.0) == 99.0
    assert pacer.free_at(replace(PLACE, chat="8"), 1.0) == (99.0 if whole else 1.0)
