"""Approvals as messages with buttons (CH-14, CH-15)."""

from dataclasses import replace

import pytest

from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.cards import (
    CARD_LIMITS,
    CallShown,
    PressedButton,
    PressVerdict,
    button_data,
    decided_text,
    judge_press,
    make_card,
    read_press,
)
from agent_fabric.domain.channels.deliveries import Part, PartKind
from long_calls import PLACES, script

PLACE = Place("telegram", "42", "7")
CALL = CallShown(
    approval_id="0123456789ab",
    args_hash="hash",
    tool="shell",
    args={"command": "systemctl restart nginx"},
    target="web-1",
    agent="sysadmin",
    sandbox="A",
    reason="restarts a service",
    question=Question.MAY_IT_RUN,
    expires_at=0.0,
)
CARD = make_card(CALL, "nonce", limit=4_096)
SENT = Part(
    source="approval",
    place=PLACE,
    kind=PartKind.CARD,
    buttons=CARD.buttons,
    facts={"approval_id": CALL.approval_id, "nonce": "nonce", "args_hash": "hash"},
)
PRESS = PressedButton(Decision.APPROVE, CALL.approval_id, "nonce")


def _verdict(press: PressedButton = PRESS, card: Part | None = SENT, **changes: object) -> PressVerdict:
    known = {"place": PLACE, "may_answer": True, "args_hash": "hash", "is_pending": True}
    return judge_press(press, card, **(known | changes))  # type: ignore[arg-type]  # a few of them differ


def test_a_card_shows_the_whole_command_and_the_machine() -> None:
    assert "systemctl restart nginx" in CARD.text
    assert "web-1" in CARD.text
    assert [each.label for each in CARD.buttons] == ["Approve", "Deny"]
    assert all(len(each.data.encode()) <= 64 for each in CARD.buttons)


@pytest.mark.parametrize("limit", CARD_LIMITS.values())
@pytest.mark.parametrize("share", [0.6, 1.0], ids=["as UTF-16", "at all"])
def test_a_call_that_does_not_fit_has_no_approve_button(limit: int, share: float) -> None:
    card = make_card(replace(CALL, args={"command": "🙂" * int(limit * share)}), "nonce", limit=limit)
    assert [each.label for each in card.buttons] == ["Deny"]
    assert "fabric approvals show 0123456789ab" in card.text
    assert len(card.text.encode("utf-16-le")) // 2 <= limit


@pytest.mark.parametrize(
    "hidden",
    list("\u202e\u200b\u200d\u00ad\u2063\U000e0072\U000e0101\ufe01\u3164\u2800\x7f\x1b\r\ue000\u2028"),
    ids=ascii,
)
def test_text_that_hides_something_cannot_be_approved_here(hidden: str) -> None:
    card = make_card(replace(CALL, args={"command": f"ls {hidden}fdp.exe"}), "nonce", limit=4_096)
    assert not card.is_whole
    assert [each.label for each in card.buttons] == ["Deny"]


def test_text_of_any_script_can_be_approved() -> None:
    card = make_card(
        replace(CALL, args={"command": "echo 'für\tÉlise ❤\ufe0f 東京 שלום 🙂'\nls"}), "nonce", limit=4_096
    )
    assert card.is_whole


def test_where_a_signature_is_needed_the_card_only_notifies() -> None:
    assert make_card(CALL, "nonce", limit=4_096, only_notifies=True).buttons == ()


def test_a_question_of_a_workflow_is_answered_where_its_form_is() -> None:
    assert make_card(replace(CALL, question=Question.ANSWER), "nonce", limit=4_096).buttons == ()


def test_after_a_crash_there_are_three_ways_on() -> None:
    card = make_card(replace(CALL, question=Question.DID_IT_HAPPEN), "nonce", limit=1_024)
    pressed = [read_press(each.data) for each in card.buttons]
    assert [each.decision for each in pressed if each] == [Decision.APPROVE, Decision.DONE, Decision.DENY]


def test_data_of_others_is_no_press() -> None:
    assert read_press(button_data(PRESS)) == PRESS
    for other in ("", "v1.a", "v1.x.id.nonce", "v2.a.id.nonce", "v1.a..nonce", "v1.a.b.c.d"):
        assert read_press(other) is None


def test_a_press_is_good_only_from_the_right_person_at_the_right_card() -> None:
    assert _verdict() is PressVerdict.GOOD
    assert _verdict(may_answer=False) is PressVerdict.NOT_YOURS
    assert _verdict(card=None) is PressVerdict.FORGED
    assert _verdict(place=replace(PLACE, chat="8")) is PressVerdict.FORGED
    assert _verdict(replace(PRESS, nonce="guessed")) is PressVerdict.FORGED
    assert _verdict(replace(PRESS, approval_id="another")) is PressVerdict.FORGED
    assert _verdict(args_hash="changed") is PressVerdict.STALE
    assert _verdict(is_pending=False) is PressVerdict.STALE


def test_a_button_that_the_card_does_not_have_is_forged() -> None:
    no_approve = replace(SENT, buttons=CARD.buttons[1:])
    assert _verdict(card=no_approve) is PressVerdict.FORGED


def test_a_decided_card_says_who_and_when() -> None:
    assert decided_text(CARD.text, decision="approved", by="ann", at=0.0, limit=4_096).endswith(
        "approved by ann, 1970-01-01 00:00 UTC"
    )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("lines", [1, 12, 403, 100_000])
@pytest.mark.parametrize("limit", CARD_LIMITS.values())
def test_a_danger_is_on_the_card_or_cannot_be_approved_there(limit: int, lines: int, place: str) -> None:
    card = make_card(replace(CALL, args={"command": script(lines, place)}), "nonce", limit=limit)
    assert card.is_whole == ("Approve" in [each.label for each in card.buttons])
    if card.is_whole:
        assert "\n".join(f"  {line}" for line in script(lines, place).split("\n")) in card.text
    assert card.is_whole or lines > 12
    assert not card.is_whole or lines < 100_000


def test_a_card_does_not_say_box_and_outside_at_once() -> None:
    card = make_card(replace(CALL, outside="git push as me"), "nonce", limit=4_096)
    assert "outside of the box" in card.text
    assert "sandbox" not in card.text


def test_a_decided_card_names_the_call_that_ran_instead() -> None:
    decide = {"decision": "approved", "by": "ann", "at": 0.0, "limit": 4_096}
    edited = decided_text(CARD.text, **decide, changed={"command": "systemctl status nginx"})  # type: ignore[arg-type] # of several types
    assert "not as asked but with:\n  systemctl status nginx" in edited
    long = decided_text(CARD.text, **decide, changed={"command": script(403, "last")})  # type: ignore[arg-type] # as above
    assert long.endswith("other arguments: 403 lines")
