"""What a turn of a session leaves to the one that follows it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.domain.chat.conversation import newest_words
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.domain.packs.recruitment import ASSISTANT
from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.knowledge import PINNED_PREFIX
from agent_fabric.domain.runs.labelling import labels_handed_on
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.runs.task import Quoted, RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """The conversation and the labels of a session as its newest turn has left them; taken from that turn's log."""

    run_id: RunId
    """The turn."""
    events: int
    """How many events its log had. With one more, this is not its end."""
    session: str
    owner: str
    history: tuple[Message, ...]
    """What was said and done, up to its end."""
    labels: Quoted
    """What its owner wrote, and the labels of what it has read."""
    specialist_ids: tuple[SpecialistId, ...] = ()
    """Who goes on with the conversation; empty: its words choose."""
    workspace: str = ""
    project: bool = False
    """Whether the workspace is a project folder of its owner."""
    encrypted: bool = False


def context_after(state: RunState) -> TurnContext:
    """Return what a turn that has ended leaves."""
    task = state.task
    assert task is not None
    return TurnContext(
        run_id=state.run_id,
        events=state.next_seq,
        session=task.session,
        owner=task.owner,
        history=history_after(state),
        labels=labels_handed_on(state),
        specialist_ids=task.specialist_ids or _whom_to_stay_with(state),
        workspace=state.workspace,
        project=state.project,
        encrypted=task.encrypted,
    )


def _whom_to_stay_with(state: RunState) -> tuple[SpecialistId, ...]:
    """Return who goes on with a conversation; none after the assistant: then its words choose again."""
    who = tuple(state.specialist_ids)
    return () if who == (ASSISTANT,) else who


# What a turn of a session knows of those before it: the conversation as the turn before has left it.
#
# It is taken from that turn's log, summaries included, and recorded with the new one. No client ever sends it.
MAX_CHARS: Final = 200_000
"""Of a history; what is older is left out. A model with a smaller window has it summarised before that."""
MAX_OUTPUT_CHARS: Final = 2_000
"""Of each tool result in it: the model can look again."""
_CUT: Final = "… (shortened)"
_LEFT_OUT: Final = "(Older messages of this conversation are left out.)"


def history_after(state: RunState) -> tuple[Message, ...]:
    """Return the conversation up to the end of a turn, for the one that follows."""
    assert state.task is not None
    lane = next(iter(state.lanes.values())) if len(state.lanes) == 1 else None
    if lane is None:
        said = [*state.task.history, Message(Role.USER, newest_words(state.task.prompt))]
    else:
        question = 1 + lane.history
        said = [*lane.messages[1 : question + 1], *_work(lane, question + 1)]
    ending = _ending(state)
    if ending and not (said[-1].role is Role.ASSISTANT and said[-1].content.strip() == ending):
        said.append(Message(Role.ASSISTANT, ending))
    return _within_limit(said)


def _work(lane: Lane, first: int) -> Iterator[Message]:
    """Return what was done in a turn. Calls without a result, and what the engine told the model, are left out."""
    answered = {message.call_id for message in lane.messages[first:] if message.role is Role.TOOL}
    for message in lane.messages[first:]:
        if message.role is Role.ASSISTANT:
            calls = tuple(call for call in message.tool_calls if call.call_id in answered)
            if calls or message.content.strip():
                yield replace(message, tool_calls=calls)
        elif message.role is Role.TOOL:
            kept = len(message.content) <= MAX_OUTPUT_CHARS or (message.call_id or "").startswith(PINNED_PREFIX)
            yield message if kept else _shorten(message)
        elif lane.compacted and message.role is Role.USER and message.content.startswith("[Earlier work"):
            yield message


def _shorten(message: Message) -> Message:
    return replace(message, content=message.content[:MAX_OUTPUT_CHARS] + _CUT)


def _ending(state: RunState) -> str:
    match state.status:
        case RunStatus.COMPLETED:
            return answer_in(state.payload or {})
        case RunStatus.FAILED:
            return f"(This turn failed: {state.error.message if state.error is not None else 'no reason is known'})"
        case RunStatus.CANCELLED:
            return f"{state.said}\n(The person stopped this answer.)".strip()
        case _:
            return ""


def _within_limit(said: Sequence[Message]) -> tuple[Message, ...]:
    """Leave out the oldest exchanges of what is too long."""
    size = sum(map(_size, said))
    if size <= MAX_CHARS:
        return tuple(said)
    first = 0
    while first < len(said) and (size > MAX_CHARS or said[first].role is not Role.USER):
        size -= _size(said[first])
        first += 1
    return (Message(Role.USER, _LEFT_OUT), *said[first:])


def _size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
