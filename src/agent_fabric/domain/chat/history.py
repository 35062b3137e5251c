"""What a turn of a session knows of those before it: the conversation as the turn before has left it.

It is taken from that turn's log, summaries included, and recorded with the new one. No client ever sends it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.domain.chat.conversation import newest_words
from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.knowledge import PINNED_PREFIX
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.runs.task import RunStatus

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
