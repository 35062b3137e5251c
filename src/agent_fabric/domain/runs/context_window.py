"""Estimates what fits into a model's context window, and what of a conversation may be summarised.

Detects a prompt that the server truncated.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent_fabric.domain.models.messages import Message, ModelSettings, Role, Usage, estimate_tokens

if TYPE_CHECKING:
    from agent_fabric.domain.runs.state import Lane

CHARS_PER_TOKEN = 4
SMALLEST_WINDOW = 2_048
"""No server in use gives a model less unless it is told to."""
_OUTPUT_SHARE = 0.2
"""Of the window, for one output of a tool."""
_COMPACT_OUTPUT_CHARS = 2_000
"""A small model reads slowly and loses the thread."""
_LEAST_OUTPUT_CHARS = 500
_READ_SHARE = 0.6
"""A server that read less than this share of an estimate that does not fit has dropped something."""
_CLOSE_SHARE = 0.8
"""A server that read at least this share of an estimate may well have read everything."""
_FULL_SHARE = 0.97
"""A window as full as this has no room for an answer: it was filled by cutting."""
_LEAST_NOTICED_TOKENS = 1_500
"""Below this, an estimate says too little."""
_LEAST_READ_TOKENS = 256
"""No server cuts a conversation down to less than this."""
_MAX_CHARS_PER_TOKEN = 8
"""No tokenizer in use needs fewer tokens for text that does not repeat itself."""

_WORD = re.compile(r"\w+")
_REPEATED = re.compile(r"(.)\1{3,}", re.DOTALL)


class Truncation(NamedTuple):
    """The server read fewer tokens than it was sent."""

    sent_tokens: int
    read_tokens: int


def estimated_tokens(messages: Sequence[Message]) -> int:
    """Roughly count the tokens of a conversation."""
    return sum(
        estimate_tokens(message.content) + sum(estimate_tokens(call.arguments) for call in message.tool_calls)
        for message in messages
    )


def least_tokens(messages: Sequence[Message]) -> int:
    """Return how many tokens a conversation has at the very least: no token spans two words.

    A row of dashes or spaces may be one token however long it is.
    """
    return sum(
        _least(message.content) + sum(_least(call.arguments) for call in message.tool_calls) for message in messages
    )


def _least(text: str) -> int:
    return max(len(_WORD.findall(text)), len(_REPEATED.sub(r"\1", text)) // _MAX_CHARS_PER_TOKEN)


def output_limit(model: ModelSettings, most_chars: int) -> int:
    """Return how many characters of a tool's output a model is shown."""
    limit = min(most_chars, _COMPACT_OUTPUT_CHARS) if model.compact else most_chars
    if model.context_window is None:
        return limit
    return min(limit, max(_LEAST_OUTPUT_CHARS, int(model.context_window * CHARS_PER_TOKEN * _OUTPUT_SHARE)))


def truncation_of(messages: Sequence[Message], usage: Usage, window: int | None) -> Truncation | None:
    """Tell whether a server silently dropped a part of what it was sent.

    Text that is unlike what estimates are made for must not raise an alarm. So one of these must hold: fewer tokens
    were read than the text has words; or the estimate is more than fits, and either far more than was read, or what was
    read fills the window to the brim.
    """
    sent, read = estimated_tokens(messages), tokens_read(usage)
    if sent < _LEAST_NOTICED_TOKENS or read < _LEAST_READ_TOKENS:
        return None  # some servers do not count at all, or only what they did not know yet
    too_long = window is not None and sent > window
    if window is not None and too_long and _FULL_SHARE * window <= read < sent:
        return Truncation(sent, read)
    if read >= _CLOSE_SHARE * sent:
        return None  # counting words would find nothing, and costs some milliseconds
    if too_long and read < _READ_SHARE * sent:
        return Truncation(sent, read)
    if read < least_tokens(messages):
        return Truncation(sent, read)
    return None


def tokens_read(usage: Usage) -> int:
    """Return the size of the prompt as the server saw it; some do not count what they still knew."""
    if usage.cached_tokens > usage.prompt_tokens:
        return usage.prompt_tokens + usage.cached_tokens
    return usage.prompt_tokens


def window_after(truncation: Truncation, window: int) -> int:
    """Return the window to reckon with after a truncation.

    What was read is no measure of it: servers drop whole messages, or half of the text. A window that was overrun was
    known well enough; one that should have held all that was sent is smaller than it was thought to be.
    """
    if truncation.sent_tokens > window:
        return window
    return max(truncation.read_tokens, min(window, SMALLEST_WINDOW))


FULL = 0.75
"""Share of the window at which the conversation is made shorter."""
_OPENING = 2
"""System prompt and task always stay as they are; what was said in a session before the task may go."""
_KEPT_TURNS = 2


def near_window(lane: "Lane") -> bool:
    """Tell whether the conversation, as last reported, nears what the model can hold."""
    window = lane.window
    return window is not None and lane.context_tokens > FULL * window


def compactable(lane: "Lane") -> tuple[int, int] | None:
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


def _old_history(lane: "Lane") -> tuple[int, int] | None:
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
