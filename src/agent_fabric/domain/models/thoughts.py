"""What a model thinks before it answers, apart from what it says."""

import re
from typing import Final, NamedTuple

MAX_KEPT_CHARS: Final = 32_000
"""Characters of the thoughts of one answer that are kept."""
_OPENING: Final = ("<think>", "<thinking>")
_MAX_OPENING: Final = max(map(len, _OPENING))
_MAX_GAP: Final = 1_000
"""Characters of nothing but blanks after which no thoughts are expected any more."""
_ENDS_ONLY: Final = re.compile(r"\n[ \t]*</think(?:ing)?>[ \t]*(?:\n|\Z)")


class Said(NamedTuple):
    """The text of an answer in two parts."""

    thoughts: str
    said: str


class ThoughtSplitter:
    """Takes `<think>…</think>` out of the beginning of an answer while it is written."""

    def __init__(self) -> None:
        self._held = ""
        self._ending = ""
        """What ends the thoughts that are being written; empty: none are."""
        self._begins = True
        """Nothing was said yet."""
        self._thought = False
        self._thoughts: list[str] = []

    def feed(self, text: str) -> str:
        """Take in a piece; return what was said in it."""
        if self._speaks():
            return text
        self._held += text
        while self._read_thoughts() if self._ending else self._read_beginning():
            pass
        return self._rest() if self._speaks() else ""

    def _speaks(self) -> bool:
        return not self._begins

    def end(self) -> str:
        """Return what was held back of what was said; thoughts that do not end remain thoughts."""
        if self._ending:
            self._thoughts.append(self._held)
            self._held = ""
        return self._rest()

    @property
    def thoughts(self) -> str:
        """What was thought so far."""
        return "".join(self._thoughts).strip()

    def _read_thoughts(self) -> bool:
        """Take up thoughts; return whether they have ended."""
        thought, ends, rest = self._held.partition(self._ending)
        if ends:
            self._thoughts.append(f"{thought}\n")
            self._held, self._ending, self._thought = rest, "", True
            return True
        kept = len(self._ending) - 1  # which may be the beginning of its end
        self._thoughts.append(self._held[:-kept])
        self._held = self._held[-kept:]
        return False

    def _read_beginning(self) -> bool:
        """Look for thoughts; return whether some begin."""
        begun = self._held.lstrip()
        for opening in _OPENING:
            if begun.startswith(opening):
                self._held, self._ending = begun[len(opening) :], f"</{opening[1:]}"
                return True
        if len(self._held) > _MAX_GAP or (begun and not any(opening.startswith(begun) for opening in _OPENING)):
            self._begins = False
        return False

    def _rest(self) -> str:
        held, self._held, self._begins = self._held, "", False
        return held.lstrip() if self._thought else held


def split_thoughts(text: str) -> Said:
    """Return what a whole text holds of thoughts, and what it says.

    Templates of some models open the thoughts in the prompt: then the answer has only their end, on a line of its own.
    """
    if "</think" not in text and not text.lstrip()[:_MAX_OPENING].startswith("<think"):
        return Said("", text)
    splitter = ThoughtSplitter()
    said = splitter.feed(text) + splitter.end()
    if not splitter.thoughts and "<think" not in said and (end := _ENDS_ONLY.search(said)):
        return Said(said[: end.start()].strip(), said[end.end() :].lstrip())
    return Said(splitter.thoughts, said)


def join_thoughts(*parts: str) -> str:
    """Return thoughts that came in several ways as one text."""
    return "\n".join(each for part in parts if (each := part.strip()))
