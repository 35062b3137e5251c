"""When a conversation gets too long for its model, and which part of it may be summarised."""

from agent_fabric.domain.messages import Message, Role
from agent_fabric.domain.runs.state import Lane

FULL = 0.75
"""Share of the window at which the conversation is made shorter."""
_OPENING = 2
"""System prompt and task always stay as they are."""
_KEPT_TURNS = 2


def near_window(lane: Lane) -> bool:
    """Tell whether the conversation, as last reported, nears what the model can hold."""
    window = lane.window
    return window is not None and lane.context_tokens > FULL * window


def compactable(lane: Lane) -> tuple[int, int] | None:
    """Return the messages to replace, from first up to but without last; None when too few would go.

    A turn is kept or replaced as a whole, so that no call is ever split from its result.
    """
    turns = [index for index, message in enumerate(lane.messages) if message.role is Role.ASSISTANT]
    kept = 1 if lane.must_compact else _KEPT_TURNS
    if len(turns) <= kept:
        return None
    last = turns[-kept]
    return (_OPENING, last) if last - _OPENING >= 2 else None


def instruction() -> str:
    """Return what the model is asked in order to get a summary."""
    return (
        "Summarise the work so far for yourself, in at most 300 words, because older messages are about to be dropped: "
        "the goal, what was done (files, commands and their outcome), what was learnt, what remains. Plain text only."
    )


def digest(messages: list[Message], limit: int = 4_000) -> str:
    """List what was done, for when the model cannot summarise."""
    lines = [f"- {call.tool} {call.arguments[:200]}" for message in messages for call in message.tool_calls]
    return "\n".join(lines)[-limit:]


def summary_message(summary: str) -> str:
    """Return the message that stands for the dropped ones."""
    return f"[Earlier work, summarised because the conversation grew too long]\n{summary}"
