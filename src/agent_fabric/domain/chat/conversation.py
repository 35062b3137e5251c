"""A conversation as one task: the newest words of the user are the task, all before them is background."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

USER, NOTE = "user", "note"
ROLES: Mapping[str, str] = {
    "system": NOTE,
    "developer": NOTE,
    "user": USER,
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""What a message's role is called in the transcript. No other text gains the authority of our own system prompt."""
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


def newest_words(prompt: str) -> str:
    """Return what a prompt asks for, without the conversation before it."""
    return prompt.partition(f"\n\n{_HEAD}\n")[0]


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
