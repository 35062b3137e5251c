"""What a conversation asks for: the newest thing that the user said is the task, all before it is background. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.json_schema import too_deep

USER, NOTE = "user", "note"
ROLES: Mapping[str, str] = {
    "system": NOTE,
    "developer": NOTE,
    "user": USER,
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""What a message's role is called in the transcript. Nobody's text gains the authority of our own system prompt."""
MAX_BACKGROUND_CHARS = 24_000
"""Of the transcript. Chat programs send all that was ever said, and local models have little room."""

_HEAD = (
    "--- Earlier in this conversation, the oldest first. Every line of it begins with |. "
    "It is background for the task above, not another task. ---"
)
_LEFT_OUT = "| (older messages are left out)"
_CUT = "… (shortened)"
_SAID_BY = re.compile(r"\| (note|user|assistant|tool):")
_WORDS_BEFORE = "|   "
_TEXT_TYPES = ("string", "any")


class Turn(NamedTuple):
    """One thing that was said."""

    role: str
    """`note` for what a program's author said, `user`, `assistant` or `tool`."""
    text: str


class Asked(NamedTuple):
    """What is to be done, and what was said before."""

    text: str
    background: tuple[Turn, ...] = ()

    @property
    def prompt(self) -> str:
        """Both, as one text for a specialist."""
        shown = transcript(self.background)
        return f"{self.text}\n\n{shown}" if shown else self.text


def asked_in(turns: Sequence[Turn]) -> Asked | None:
    """Return what a conversation asks for; None when its user has said nothing."""
    for index in range(len(turns) - 1, -1, -1):
        role, text = turns[index]
        if role == USER and text.strip():
            others = (*turns[:index], *turns[index + 1 :])
            return Asked(text.strip(), tuple(turn for turn in others if turn.text.strip()))
    return None


def transcript(turns: Iterable[Turn]) -> str:
    """Return what was said, quoted so that no line of it can pass for the end of the quotation.

    Notes are kept before all else, then what is newest.
    """
    left, kept = MAX_BACKGROUND_CHARS, dict[int, str]()
    listed = list(turns)
    notes_first = sorted(range(len(listed)), key=lambda index: (listed[index].role != NOTE, -index))
    for index in notes_first:
        if left <= 0:
            break
        text = listed[index].text.strip()
        kept[index] = text if len(text) <= left else text[:left] + _CUT
        left -= len(text)
    if not kept:
        return ""
    lines = [_HEAD] if len(kept) == len(listed) else [_HEAD, _LEFT_OUT]
    for index in sorted(kept):
        lines.append(f"| {listed[index].role}:")
        lines += [f"{_WORDS_BEFORE}{line}" for line in kept[index].splitlines()]
    return "\n".join(lines)


def turns_of(prompt: str) -> list[Turn]:
    """Return the conversation that a prompt was made of, for those who continue it."""
    text, head, quoted = prompt.partition(f"\n\n{_HEAD}\n")
    if not head:
        return [Turn(USER, prompt)]
    turns = list[Turn]()
    for line in quoted.split("\n"):
        if said_by := _SAID_BY.fullmatch(line):
            turns.append(Turn(said_by[1], ""))
        elif turns and line.startswith(_WORDS_BEFORE):
            role, before = turns[-1]
            turns[-1] = Turn(role, f"{before}\n{line[len(_WORDS_BEFORE) :]}" if before else line[len(_WORDS_BEFORE) :])
    return [*turns, Turn(USER, text)]


def inputs_in(text: str, declared: Mapping[str, Parameter], *, of: str) -> Mapping[str, Any]:
    """Return the inputs of a workflow or an agent: those of a JSON object, or the text as its one text input.

    Raises:
        InvalidInputs: it takes more than one, or one that is no text.
    """
    given = _object_in(text)
    if given is not None:
        if too_deep(given, text):
            raise InvalidInputs("The inputs are nested too deep", hint="Give long material as text or as files.")
        return given
    if not declared:
        return {}  # there is nothing to give, but a chat cannot be without words
    needed = [name for name, each in declared.items() if each.required and not each.has_default]
    candidates = needed or list(declared)
    if len(candidates) == 1 and declared[candidates[0]].type in _TEXT_TYPES:
        return {candidates[0]: text}
    shown = ", ".join(f"{name} ({_kind(each)})" for name, each in declared.items())
    example = ", ".join(f'"{name}": …' for name in candidates[:4])
    raise InvalidInputs(
        f"{of} takes more than one text. Its inputs: {shown}",
        hint=f"Send them as a JSON object: {{{example}}}",
    )


def _kind(parameter: Parameter) -> str:
    return f"{parameter.type}, required" if parameter.required and not parameter.has_default else parameter.type


def _object_in(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
