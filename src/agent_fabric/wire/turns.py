"""What happened in turns: when, with which context, what can be taken back, and whether the record holds."""

from collections.abc import Sequence
from typing import NamedTuple

from agent_fabric.application.chat.undo_turns import LaterChanges, TakenBack
from agent_fabric.application.chat.verify_session import CheckedTurn, VerifiedSession
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Message, ToolCallRequest
from agent_fabric.domain.runs.irreversible import SentAway
from agent_fabric.domain.runs.timeline import Span, Timeline
from agent_fabric.wire.changes import DIFF, UNDONE, undo_object
from agent_fabric.wire.shape import Json, Shape


class LaneContext(NamedTuple):
    """What a model of one lane would be sent at a moment."""

    lane: str
    model: str
    phase: str
    """What comes next."""
    tokens: int
    """Size of the conversation, as last reported or estimated."""
    messages: Sequence[Message]


class RunContext(NamedTuple):
    """The context of a run as of an event."""

    run_id: RunId
    seq: int
    """The event; the newest, if a later one was asked for."""
    lanes: Sequence[LaneContext]


_SENT_AWAY = Shape(SentAway, name="SentAway")
TIMELINE = Shape(Timeline, name="RunTimeline", parts=[Shape(Span, name="RunSpan")])
_CALL = Shape(ToolCallRequest, name="RequestedCall")
_MESSAGE = Shape(Message, name="ContextMessage", parts=[_CALL])
CONTEXT = Shape(RunContext, parts=[Shape(LaneContext, parts=[_MESSAGE])])
LATER_CHANGES = Shape(LaterChanges, "runs=diffs cannot_be_taken_back=sent", parts=[DIFF, _SENT_AWAY])
TAKEN_BACK = Shape(TakenBack, "runs=undone cannot_be_taken_back=sent", parts=[UNDONE, _SENT_AWAY])
VERIFIED_SESSION = Shape(VerifiedSession, parts=[Shape(CheckedTurn, name="CheckedTurn")])


def taken_back_object(done: TakenBack) -> Json:
    """Return what was taken back, and what cannot be."""
    return {**TAKEN_BACK.dump(TakenBack((), done.sent)), "runs": [undo_object(each) for each in done.undone]}
