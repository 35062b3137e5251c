"""Passages: a document in parts of about a page, each of which can be found and quoted by itself.

Passages do not overlap and leave nothing out: put together they are the text. They end at headings where they can, else
between paragraphs, else between sentences, else between words.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass

MIN_CHARS: Final = 1_000
"""A passage goes on behind a heading until it is so long."""
MAX_CHARS: Final = 1_600
SEPARATOR: Final = " › "

_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_PARAGRAPH: Final = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|[。！？][」』”’）]*|\n")
_SPACE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a document."""

    ordinal: int
    """Counts from 0."""
    start: int
    """Where it begins in the document's text, in characters."""
    end: int
    headings: tuple[str, ...] = ()
    """The headings above all of it, outermost first."""
    text: str
    """Exactly what stands there."""

    def text_to_index(self, title: str) -> str:
        """Return what is put into the indexes: a passage is found by the headings above it, too."""
        path = self.headings if self.headings[:1] == (title,) else (title, *self.headings)
        return f"{SEPARATOR.join(path)}\n{self.text.strip()}"

    def hash(self, title: str) -> str:
        """Return what identifies the indexed text: as long as it stays the same, words and vectors stay right."""
        return hashlib.sha256(self.text_to_index(title).encode("utf-8", "replace")).hexdigest()


class Section(NamedTuple):
    """A heading and what stands below it, up to the next one."""

    start: int
    end: int
    headings: tuple[str, ...]


class Replacement(NamedTuple):
    """What turns the passages that are stored into new ones."""

    kept: Sequence[tuple[int, Passage]]
    """Number of a stored row, and the passage that it becomes; its words and vectors stay."""
    added: Sequence[Passage]
    removed: Sequence[int]
    """Numbers of stored rows that are in no new passage."""


def split_passages(text: str) -> list[Passage]:
    """Return the passages of a text; none, if there is nothing to read in it."""
    if not text.strip():
        return []
    sections = sections_in(text)
    ends = [*_ends_of_passages(text, sections), len(text)]
    starts = [0, *ends[:-1]]
    return [
        Passage(
            ordinal=ordinal,
            start=start,
            end=end,
            headings=_headings_above(sections, start, end),
            text=text[start:end],
        )
        for ordinal, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def sections_in(text: str) -> list[Section]:
    """Return the sections of a text in Markdown; what looks like a heading in code is none."""
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    begin = at = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        fenced = _FENCE.match(line)
        if fenced is not None and fenced[1].startswith(fence):
            fence = "" if fence else fenced[1]
        heading = None if fence else _HEADING.match(line)
        if heading is not None:
            if at > begin:
                sections.append(Section(begin, at, tuple(name for _, name in path)))
            level = len(heading[1])
            path = [*(each for each in path if each[0] < level), (level, heading[2].strip().rstrip("#").rstrip())]
            begin = at
        at += len(line)
    sections.append(Section(begin, len(text), tuple(name for _, name in path)))
    return sections


def plan_replacement(stored: Sequence[tuple[int, str]], passages: Sequence[Passage], title: str) -> Replacement:
    """Compare stored rows, given as number and hash, with new passages."""
    free: dict[str, list[int]] = {}
    for number, known in stored:
        free.setdefault(known, []).append(number)
    kept: list[tuple[int, Passage]] = []
    added: list[Passage] = []
    for passage in passages:
        numbers = free.get(passage.hash(title))
        if numbers:
            kept.append((numbers.pop(0), passage))
        else:
            added.append(passage)
    return Replacement(kept, added, sorted(number for numbers in free.values() for number in numbers))


def _ends_of_passages(text: str, sections: Sequence[Section]) -> Iterator[int]:
    """Yield where passages end, but for the last one."""
    levels = (
        [section.start for section in sections],
        [found.end() for found in _PARAGRAPH.finditer(text)],
        [found.end() for found in _SENTENCE.finditer(text)],
        [found.end() for found in _SPACE.finditer(text)],
    )
    start, last = 0, len(text.rstrip())
    while last - start > MAX_CHARS:
        start = next(filter(None, (_last_within(ends, start) for ends in levels)), start + MAX_CHARS)
        yield start


def _last_within(ends: Sequence[int], start: int) -> int:
    """Return the last place where a passage that begins here may end; 0: it may end at none of these."""
    at = bisect_right(ends, start + MAX_CHARS)
    return ends[at - 1] if at and ends[at - 1] >= start + MIN_CHARS else 0


def _headings_above(sections: Sequence[Section], start: int, end: int) -> tuple[str, ...]:
    """Return the headings that all sections of a passage have in common."""
    first = bisect_right(sections, start, key=lambda section: section.start) - 1
    common = sections[first].headings
    for section in sections[first + 1 :]:
        if section.start >= end:
            break
        same = 0
        for one, other in zip(common, section.headings, strict=False):
            if one != other:
                break
            same += 1
        common = common[:same]
    return common
