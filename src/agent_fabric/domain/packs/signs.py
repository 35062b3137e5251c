"""Everyday signs in a task, with what each weighs: no model. They say which kind of work is meant.

A sign is a word or phrase of the table, or the look of something: the name of a file, a sum, an address. English,
German, French, Spanish and Portuguese; words are compared without accents, and long ones forgive one slip of the keys.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from agent_fabric.domain.packs.everyday_words import EVERYDAY_WORDS, Kind


class Sign(NamedTuple):
    """One thing in a task that speaks for a kind of work."""

    said: str
    weight: int


Signs = Mapping[Kind, Sequence[Sign]]

_FORMATS_TEXT: Final = """
    bak bib c cc cfg conf cpp css csv db doc docx env epub gif go gz h heic htm html ics ini ipynb java jpeg jpg
    js json jsx key kt lock log lua md mov mp3 mp4 ods odt pdf php pl png ppt pptx py rb rs rst sh sql svg swift
    tar tex tmp toml ts tsv tsx txt vcf wav webp xls xlsx xml yaml yml zip
"""
_FORMATS: Final = frozenset(_FORMATS_TEXT.split())
"""Endings of the names of files."""
_ASKS: Final = (
    "what|what's|whats|who|when|why|which|is|are|can|do|does|how (?:do|does|is|far|long|old|tall|come|many|much)"
    "|was|wer|wann|warum|wie|welche\\w*|ist|sind|qui|quand|pourquoi|comment|qu'est|quel\\w*|qu[eé]|qui[eé]n|cu[aá]ndo|cu[aá]l"
    "|c[oó]mo|por qu[eêé]|o que|quem|qual"
)
"""How a question begins that asks for knowledge."""
_NAME = re.compile(r"(?<![\w/.@-])(?:[\w-]+/)*[\w-]*\.([A-Za-z]\w{0,4})(?![\w/])")
_LOOKS: Final = (
    (Kind.FILES, 4, r"(?<![\w:/.-])(?:\.{0,2}/|~/)?[A-Za-z][\w-]+/(?=\s|$|[\w-]+\.\w|[,;:])"),
    (Kind.FILES, 5, r"```|\b[A-Z]\w*Error\b|\bE[A-Z]{4,}\b|\b\w+\(\)|#REF\b|\b(?:README|Makefile|Dockerfile)\b"),
    (
        Kind.FILES,
        4,
        r"(?i:\b(?:this|the|our|my|current) (?:project|repo|repository|code|codebase|folder|directory)\b"
        r"|\b(?:my|mon|mein|mi|meu) (?:script|program\w*|skript|code|app|website)\b)",
    ),
    (Kind.TALK, 6, r"\d[\d.,]*\)?(?:\s*[*+×^÷]\s*|\s+[-x/]\s+)\(?\d[\d.,]*|\d+ ?% (?:of|von|de) \d+|\bx\^2\b"),
    (Kind.TALK, 5, r"(?i:\b\w+ (?:mal|fois|por|vezes|times|plus|minus) \w+ ?(?:\?|=|$))"),
    (Kind.TALK, 3, r"(?:^|\s)['\"“«][^'\"”»]{3,60}['\"”»]"),
    (Kind.TALK, 3, r":\s+\w+(?:\W+\w+){5,}"),
    (Kind.TALK, 3, rf"(?i:^(?:{_ASKS})\b(?!.*\b(?:my|our|this|these|here|mein\w*|mon|mes|mis?|meus?)\b))"),
    (Kind.WEB, 3, r"(?i:^(?:(?:has|have|did|will) (?:the|there|it|they)|is it going to|any news)\b)"),
    (Kind.WEB, 6, r"\bhttps?://"),
    (Kind.WEB, 7, r"(?<![\w/])www\.\w"),
)
"""What something in a task looks like."""
_NAMES_A_FILE: Final = 9
_LOOKED_AT: Final = 1_500
"""Characters of a task in which signs count; what follows is material."""
_MAX_WORDS: Final = 80
_FORGIVING: Final = 5
"""Letters that a word must have for one slip to be forgiven; the word that it is taken for has more."""
_WORD = re.compile(r"[^\W_]+")
_OF_NAMES = re.compile(r"\S*(?:/|\.\w)\S*")


class _Entry(NamedTuple):
    kind: Kind
    weight: int
    words: tuple[str, ...]
    open_ended: bool


class _Table(NamedTuple):
    by_start: Mapping[str, Sequence[_Entry]]
    """Entries by the first two letters."""
    by_shape: Mapping[tuple[str, int], Sequence[_Entry]]
    """Single words for which a slip is forgiven, by first letter and length."""


def signs_of(task: str) -> Signs:
    """Return the signs of each kind, every one once, in the order of the table."""
    text = task[:_LOOKED_AT]
    found: dict[Kind, dict[str, int]] = {kind: {} for kind in Kind}
    for name in _NAME.finditer(text):
        if name[1].lower() in _FORMATS:
            found[Kind.FILES].setdefault(name[0], _NAMES_A_FILE)
            break
    for kind, weight, look in _looks():
        if seen := look.search(text):
            found[kind].setdefault(" ".join(seen[0].split()), weight)
    words = _WORD.findall(_plain(_OF_NAMES.sub(" ", text)))[:_MAX_WORDS]
    table = _table()
    counted = dict.fromkeys(Kind, 0)
    for place in range(len(words)):
        for entry in _entries_at(table, words, place):
            if place >= counted[entry.kind]:  # else it is part of a longer phrase
                counted[entry.kind] = place + len(entry.words)
                found[entry.kind].setdefault(" ".join(words[place : counted[entry.kind]]), entry.weight)
    return {kind: [Sign(*each) for each in signs.items()] for kind, signs in found.items()}


def _entries_at(table: _Table, words: Sequence[str], place: int) -> Iterable[_Entry]:
    word = words[place]
    found = [entry for entry in table.by_start.get(word[:2], ()) if _matches(entry, words, place)]
    if not found and len(word) >= _FORGIVING:
        sizes = range(_FORGIVING + 1, len(word) + 2)
        near = (entry for size in sizes for entry in table.by_shape.get((word[0], size), ()) if _is_slip(word, entry))
        return [entry for entry in (next(near, None),) if entry is not None]
    longest: dict[Kind, _Entry] = {}
    for entry in found:  # of "who" and "who is", the longer one counts
        best = longest.get(entry.kind)
        if best is None or (len(entry.words), entry.weight) > (len(best.words), best.weight):
            longest[entry.kind] = entry
    return longest.values()


def _matches(entry: _Entry, words: Sequence[str], place: int) -> bool:
    *most, last = entry.words
    at = place + len(most)
    if at >= len(words) or (most and list(words[place:at]) != most):
        return False
    return words[at].startswith(last) if entry.open_ended else words[at] == last


def _is_slip(word: str, entry: _Entry) -> bool:
    (known,) = entry.words
    if not entry.open_ended:
        return _one_edit(word, known) and f"{word}s" != known and f"{known}s" != word
    return any(_one_edit(word[:length], known) for length in (len(known) - 1, len(known), len(known) + 1))


def _one_edit(one: str, other: str) -> bool:
    """Tell whether one letter is missing or added, or two neighbours have changed places."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    a, b = one[start:], other[start:]
    return a[1:] == b or a == b[1:] or (a[2:] == b[2:] and a[:2] == b[1::-1])


@cache
def _looks() -> Sequence[tuple[Kind, int, re.Pattern[str]]]:
    """Return the looks, compiled when the first task is weighed: other commands would only pay for it."""
    return [(kind, weight, re.compile(pattern)) for kind, weight, pattern in _LOOKS]


@cache
def _table() -> _Table:
    by_start: dict[str, list[_Entry]] = {}
    by_shape: dict[tuple[str, int], list[_Entry]] = {}
    for kind, rows in EVERYDAY_WORDS.items():
        for weight, row in rows.items():
            for written in row.split():
                words = tuple(written.rstrip("*").split("_"))
                entry = _Entry(kind, weight, words, written.endswith("*"))
                first = words[0]
                by_start.setdefault(first[:2], []).append(entry)
                if len(words) == 1 and len(first) > _FORGIVING:
                    by_shape.setdefault((first[0], len(first)), []).append(entry)
    return _Table(by_start, by_shape)


def _plain(text: str) -> str:
    """Return a text in small letters without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
