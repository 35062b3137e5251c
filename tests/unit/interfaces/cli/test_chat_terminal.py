"""What `fabric chat` shows of turns, and what Ctrl-C does to them; without a terminal."""

import asyncio
import io

import pytest

from agent_fabric.domain.chat.sessions import QUEUED, ChatMessage, question_id
from agent_fabric.domain.errors import MessageNotFound, RunUndrivable
from agent_fabric.domain.events import Event, ModelAnswered
from agent_fabric.domain.ids import LaneId, RunId, SessionId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.interfaces.cli.chat.chat_loop import Presses
from agent_fabric.interfaces.cli.chat.chat_places import require_waiting
from agent_fabric.interfaces.cli.chat.chat_view import ChatView

OURS, THEIRS = RunId("ours"), RunId("theirs")
LANE = LaneId("assistant")


def answered(seq: int, text: str, *, cut: int = 0) -> Event:
    body = ModelAnswered(
        content=text, tool_calls=(), usage=Usage(1, 1), model="m", finish_reason="stop", duration_s=0.1, cut=cut
    )
    return Event(seq, 0.0, LANE, "step_0", body)


def test_an_event_is_shown_once_whoever_drives_the_turn() -> None:
    said = io.StringIO()
    view = ChatView(said, None)
    view.turn = OURS
    view.delta(OURS, LANE, "Hel")
    view.delta(THEIRS, LANE, "not ours")
    view.delta(OURS, LANE, "lo.")
    view.publish(OURS, [answered(3, "Hello.")])
    view.publish(OURS, [answered(3, "Hello."), answered(5, "And more.")])  # read again from the log
    view.publish(THEIRS, [answered(9, "not ours")])
    assert said.getvalue() == "Hello.\nAnd more.\n"


def test_an_answer_that_was_cut_says_so() -> None:
    beside = io.StringIO()
    view = ChatView(io.StringIO(), beside)
    view.turn = OURS
    view.publish(OURS, [answered(3, "and so on", cut=128_000)])
    assert "cut after 128,000 characters" in beside.getvalue()


def waiting(**metadata: str) -> ChatMessage:
    return ChatMessage(
        message_id=question_id(OURS),
        session_id=SessionId("s"),
        role="user",
        content="hello",
        metadata={"run_id": OURS, "status": QUEUED, **metadata},
        created_at=0.0,
    )


def test_nobody_waits_for_a_turn_that_will_never_begin() -> None:
    require_waiting([waiting()], OURS)
    with pytest.raises(MessageNotFound, match="withdrawn"):
        require_waiting([], OURS)
    with pytest.raises(RunUndrivable, match="web is offline"):
        require_waiting([waiting(problem="web is offline")], OURS)


async def test_a_second_press_leaves_when_the_turn_has_stopped() -> None:
    stopped: list[str] = []

    async def stop() -> None:
        stopped.append("asked")
        await asyncio.sleep(0.05)
        stopped.append("kept")
        presses.forget()

    main = asyncio.ensure_future(asyncio.sleep(5))
    presses = Presses(main, stop)
    presses.press()
    presses.press()
    with pytest.raises(asyncio.CancelledError):
        await main
    assert stopped == ["asked", "kept"]


async def test_a_third_press_leaves_at_once() -> None:
    main = asyncio.ensure_future(asyncio.sleep(5))
    presses = Presses(main, lambda: asyncio.sleep(5))
    for _ in range(3):
        presses.press()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(main), 4)
