"""Plain text as a call: a model that can only write calls must be able to speak in a conversation, too.

A task ends with `finish_task`, a turn of a conversation with plain text. Where a schema holds every answer to a call,
`reply` stands for that text. It exists between us and the model only: what it says becomes the content of the answer.
"""

import json
import re
from collections.abc import Callable, Sequence

from agent_fabric.domain.dialects.call_text import THOUGHT, as_text
from agent_fabric.domain.tools import FINISH_TASK, Effect, ToolSpec, object_schema

_TEXT = "answer"
REPLY = ToolSpec(
    name="reply",
    description="Say this to the person; it ends your turn.",
    parameters=object_schema({_TEXT: {"type": "string"}}, (_TEXT,)),
    effect=Effect.READS,
)
_STRING = r'"(?:[^"\\]|\\.)*"'
_BEGINNING = re.compile(
    rf'\s*\{{\s*(?:"{THOUGHT}"\s*:\s*{_STRING}\s*,\s*)?"name"\s*:\s*"{REPLY.name}"\s*,'
    rf'\s*"arguments"\s*:\s*\{{\s*"{_TEXT}"\s*:\s*"',
    re.DOTALL,
)
_WHOLE = re.compile(
    r'(?:[^"\\]|\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u(?![dD][89abAB])[0-9a-fA-F]{4}|[^u]))*'
)
"""As much of a string as has whole letters: half an escape, or half of a pair, may still be on its way."""


def with_reply(tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    """Return what a model may call: in a conversation, where nothing else ends the turn, with `reply` first."""
    return tools if not tools or any(tool.name == FINISH_TASK for tool in tools) else (REPLY, *tools)


def as_reply(text: str) -> str:
    """Return what was said earlier in the form in which the model says things."""
    return as_text({"name": REPLY.name, "arguments": {_TEXT: text}})


def reply_so_far(written: str) -> str | None:
    """Return what a model has said to the person until now; None: what it writes is not, or not yet, a reply."""
    begun = _BEGINNING.match(written)
    if begun is None:
        return None
    whole = _WHOLE.match(written, begun.end())
    assert whole is not None  # it matches nothing at all, too
    try:
        return str(json.loads(f'"{whole[0]}"', strict=False))
    except ValueError:  # an escape that JSON does not have
        return whole[0]


def spoken(on_delta: Callable[[str], None]) -> Callable[[str], None]:
    """Return a listener for pieces of calls that passes on what is said to the person, and nothing else."""
    written, said = "", 0

    def hear(piece: str) -> None:
        nonlocal written, said
        written += piece
        text = reply_so_far(written)
        if text is not None and len(text) > said:
            on_delta(text[said:])
            said = len(text)

    return hear
