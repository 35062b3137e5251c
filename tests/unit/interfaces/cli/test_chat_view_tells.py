"""A turn at the terminal: what contradicts the words follows them, since they were shown as they came."""

import io

from agent_fabric.domain.events import Event, RunCompleted
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.effects import Effects, NotedCall, Outcome
from agent_fabric.interfaces.cli.chat.chat_view import ChatView

RUN = RunId("r")


def shown(effects: Effects | None, outcome: Outcome) -> str:
    out = io.StringIO()
    view = ChatView(out, None)
    view.delta(RUN, LaneId("a"), "I have pushed main.")
    ended = RunCompleted(
        run_id=RUN, specialist_ids=(), task_force_mode="sequential", payload={}, effects=effects, outcome=outcome
    )
    view.publish(RUN, [Event(0, 0.0, None, "", ended)])
    return out.getvalue()


def test_what_was_denied_is_what_is_read_last() -> None:
    denied = NotedCall(what="git push\x1b[2J origin main", by="ada", why="not today")
    text = shown(Effects(denied=(denied,)), Outcome.REFUSED)
    assert text.splitlines()[0] == "I have pushed main."
    assert text.splitlines()[-1] == "  denied by ada: git push [2J origin main (not today)"


def test_nothing_is_added_to_an_answer_that_nothing_contradicts() -> None:
    assert shown(None, Outcome.DONE) == "I have pushed main."
