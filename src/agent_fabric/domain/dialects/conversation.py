"""How a small model talks: it looks before it speaks of files, speaks freely, and is brought to an end.

A task is done in calls only, and ends with one; there a schema holds every answer to a call. A turn of a conversation
ends with plain words, so the model is free to write them, except twice. What is about files, commands or numbers begins
with a call, or the model would make up what it could have seen. And when calls lead nowhere, only words are left: the
schema of `reply`, a call that exists between us and the model alone.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_fabric.domain.dialects.answer_schema import LONGEST_TEXT, schema_of_calls
from agent_fabric.domain.dialects.observations import has_failed, was_repeated
from agent_fabric.domain.memory.knowledge import PASSAGES
from agent_fabric.domain.messages import Message, Role
from agent_fabric.domain.tools import FINISH_TASK, ToolSpec, object_schema

MAX_FAILURES = 2
"""Of one turn; after these a model may only reply."""
FORM = """\
To use a tool, write its call and nothing else, as JSON: {"name": "<tool>", "arguments": {…}}
You then see its result. To speak to the person, write plain words, without JSON."""
_REPLY = "reply"
_LOOKED_AT = 20_000
"""Characters of a message that are searched; what follows is material."""
_ABOUT_THINGS = (
    r"(?i)\b(?:files?|folders?|director(?:y|ies)|workspace|commands?|disk|memory|cpu|process(?:es)?|machine|computer"
    r"|run|execute|install|delete|rename|today|date)\b"
    r"|(?<![\w/.@-])[\w-]+\.[a-z][a-z0-9]{0,4}\b(?!\.)"
    r"|\d\s*[-*/+^×]\s*\d"
)
"""Words, names of files and sums, which are looked up or worked out and not guessed. Compiled when first used, as all
here: tasks have no conversations."""
_QUESTION_OF_HOW = r"(?i)\s*(?:how (?:do|can|would|should) (?:i|you|we|one)\b|explain\b|what is an? )"
"""Asks for words, whatever they are about."""
_CALL_LIKE = ("{", "`", "<")
"""What answers begin with that may be calls; such are shown when they are whole."""
_BEGINNING = rf'\s*\{{\s*"name"\s*:\s*"{_REPLY}"\s*,\s*"arguments"\s*:\s*\{{\s*"text"\s*:\s*"'
_WHOLE = r'(?:[^"\\]|\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u(?![dD][89abAB])[0-9a-fA-F]{4}|[^u]))*'
"""As much of a string as has whole letters: half an escape, or half of a pair, may still be on its way."""
_KNOWS = f'"{PASSAGES}": [{{'
"""What memory was told to have, where that is something."""
_REPLY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"const": _REPLY},
        "arguments": object_schema({"text": {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}}, ("text",)),
    },
    "required": ["name", "arguments"],
    "additionalProperties": False,
}


def is_conversation(tools: Sequence[ToolSpec]) -> bool:
    """Tell whether a request is a turn of a conversation: there are tools, and none of them ends it."""
    return bool(tools) and all(tool.name != FINISH_TASK for tool in tools)


def schema_for(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Mapping[str, Any] | None:
    """Return what the next answer of a turn is held to; None: the model writes freely."""
    turn = _of_this_turn(messages)
    own = {call.call_id for message in turn for call in message.tool_calls if any(call.tool == t.name for t in tools)}
    results = [message.content for message in turn if message.call_id in own]  # not what it was told from memory
    if any(map(was_repeated, results)) or sum(map(has_failed, results)) >= MAX_FAILURES:
        return _REPLY_SCHEMA
    said = next((message.content for message in turn if message.role is Role.USER), "")
    if results or any(_KNOWS in message.content for message in turn if message.role is Role.TOOL):
        return None  # it has looked, or memory has
    return schema_of_calls(tools) if needs_a_look(said) else None


def needs_a_look(said: str) -> bool:
    """Tell whether words are about something that a tool shows or works out."""
    words = said[:_LOOKED_AT]
    return re.search(_ABOUT_THINGS, words) is not None and not re.match(_QUESTION_OF_HOW, words)


def reply_so_far(written: str) -> str | None:
    """Return what a model has said through `reply` until now; None: what it writes is not, or not yet, a reply."""
    begun = re.match(_BEGINNING, written)
    if begun is None:
        return None
    whole = re.match(_WHOLE, written[begun.end() :])
    assert whole is not None  # it matches nothing at all, too
    try:
        return str(json.loads(f'"{whole[0]}"', strict=False))
    except ValueError:  # an escape that JSON does not have
        return whole[0]


def spoken(on_delta: Callable[[str], None]) -> Callable[[str], None]:
    """Return a listener for pieces of an answer that passes on what is said to the person, and no calls."""
    written, said = "", 0

    def hear(piece: str) -> None:
        nonlocal written, said
        written += piece
        text = reply_so_far(written) if written.lstrip().startswith(_CALL_LIKE) else written
        if text is not None and len(text) > said:
            on_delta(text[said:])
            said = len(text)

    return hear


def _of_this_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return what came after a turn had ended with plain words."""
    for index in range(len(messages) - 1, 0, -1):
        before = messages[index - 1]
        if messages[index].role is Role.USER and before.role is Role.ASSISTANT and not before.tool_calls:
            return messages[index:]
    return messages
