"""When a conversation gets too long for its model, and which part of it may be summarised."""

from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.domain.runs.state import Lane

FULL = 0.75
"""Share of the window at which the conversation is made shorter."""
_OPENING = 2
"""System prompt and task always stay as they are; what was said in a session before the task may go."""
_KEPT_TURNS = 2


def near_window(lane: Lane) -> bool:
    """Tell whether the conversation, as last reported, nears what the model can hold."""
    window = lane.window
    return window is not None and lane.context_tokens > FULL * window


def compactable(lane: Lane) -> tuple[int, int] | None:
    """Return the messages to replace, from first up to but without last; None when too few would go.

    A turn is kept or replaced as a whole, so that no call is ever split from its result.
    """
    if (before := _old_history(lane)) is not None:
        return before
    opening = _OPENING + lane.history
    turns = [
        index for index, message in enumerate(lane.messages) if message.role is Role.ASSISTANT and index >= opening
    ]
    kept = 1 if lane.must_compact else _KEPT_TURNS
    if len(turns) <= kept:
        return None
    last = turns[-kept]
    return (opening, last) if last - opening >= 2 else None


def _old_history(lane: Lane) -> tuple[int, int] | None:
    """Return what was said before the task, but for the newest exchange; all of it, when it must become shorter."""
    end = 1 + lane.history
    if not lane.must_compact:
        asked = [index for index in range(1, end) if lane.messages[index].role is Role.USER]
        end = asked[-1] if asked else 1
    return (1, end) if end - 1 >= 2 else None


def instruction() -> str:
    """Return what the model is asked in order to get a summary."""
    return (
        "Summarise the work so far for yourself, in at most 300 words, because older messages are about to be dropped: "
        "the goal, what was done (files, commands and their outcome), what was learnt, what remains. Plain text only."
    )


def digest(messages: list[Message], limit: int = 4_000) -> str:
    """List what was done, and what was said where nothing was done, for when the model cannot summarise."""
    lines = [f"- {call.tool} {call.arguments[:200]}" for message in messages for call in message.tool_calls]
    lines = lines or [f"- {message.role}: {message.content[:400]}" for message in messages]
    return "\n".join(lines)[-limit:]


def summary_message(summary: str) -> str:
    """Return the message that stands for the dropped ones."""
    return f"[Earlier work, summarised because the conversation grew too long]\n{summary}"
