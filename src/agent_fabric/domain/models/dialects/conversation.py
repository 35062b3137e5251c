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

from agent_fabric.domain.models.dialects.answer_schema import MAX_TEXT_CHARS, schema_of_calls
from agent_fabric.domain.models.dialects.observations import has_failed, was_repeated
from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.domain.tools.specs import FINISH_TASK, PASSAGES, ToolSpec, object_schema

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
_MAX_BEGINNING_CHARS = 1_000
"""Characters after which an answer that is no reply will not become one."""
_WHOLE = r'(?:[^"\\]|\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u(?![dD][89abAB])[0-9a-fA-F]{4}|[^u]))*'
"""As much of a string as has whole letters: half an escape, or half of a pair, may still be on its way."""
_KNOWS = f'"{PASSAGES}": [{{'
"""What memory was told to have, where that is something."""
_REPLY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"const": _REPLY},
        "arguments": object_schema(
            {"text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARS}}, ("text",)
        ),
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
    return None if begun is None else _whole_letters(written[begun.end() :])[0]


def _whole_letters(written: str) -> tuple[str, str]:
    """Return as much of a JSON string as has whole letters, read, and what is left behind it."""
    whole = re.match(_WHOLE, written)
    assert whole is not None  # it matches nothing at all, too
    try:
        said = str(json.loads(f'"{whole[0]}"', strict=False))
    except ValueError:  # an escape that JSON does not have
        said = whole[0]
    return said, written[whole.end() :]


def speech_listener(on_delta: Callable[[str], None]) -> Callable[[str], None]:
    """Return a listener for pieces of an answer that passes on what is said to the person, and no calls."""
    return _Listener(on_delta)


class _Listener:
    """Finds out what an answer is, then reads on from where it was: an answer may be long, and have many pieces."""

    def __init__(self, on_delta: Callable[[str], None]) -> None:
        self._on_delta = on_delta
        self._hear: Callable[[str], None] = self._find_out
        self._unread = ""

    def __call__(self, piece: str) -> None:
        self._hear(piece)

    def _find_out(self, piece: str) -> None:
        written = self._unread = self._unread + piece
        if not (begins := written.lstrip()):
            return
        if not begins.startswith(_CALL_LIKE):
            self._hear = self._on_delta
            self._on_delta(written)
        elif begun := re.match(_BEGINNING, written):
            self._hear, self._unread = self._reply, ""
            self._reply(written[begun.end() :])
        elif len(begins) > _MAX_BEGINNING_CHARS:
            self._hear, self._unread = _say_nothing, ""

    def _reply(self, piece: str) -> None:
        said, self._unread = _whole_letters(self._unread + piece)
        if said:
            self._on_delta(said)
        if self._unread.startswith('"'):  # the words have ended
            self._hear, self._unread = _say_nothing, ""


def _say_nothing(piece: str) -> None:
    """Take a piece of a call."""


def _of_this_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return what came after a turn had ended with plain words."""
    for index in range(len(messages) - 1, 0, -1):
        before = messages[index - 1]
        if messages[index].role is Role.USER and before.role is Role.ASSISTANT and not before.tool_calls:
            return messages[index:]
    return messages
