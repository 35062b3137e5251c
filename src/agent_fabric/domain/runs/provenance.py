"""What each sentence of an answer rests on: the tool results that have its numbers, quotes, names and words."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.domain.evidence.statements import FlatText, facts_in
from agent_fabric.domain.runs.state import Observation

MAX_SENTENCES: Final = 200
MAX_TRACED: Final = 32_000
"""Characters of an answer that are looked at: more than so many sentences have, and others wait meanwhile."""
MAX_EVENTS: Final = 3
"""Events that are named for one sentence."""
_MIN_WORDS: Final = 4
_SHARE: Final = 0.7
"""Of the words of a sentence that one result must have, if it has no numbers, quotes or names."""
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"[^\n]*?(?:[.!?:](?=[\s\"'”)*_]|$)[\"'”)*_]*|$)", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]{4,}")
_NAMES = re.compile(
    r"https?://[^\s<>()\"'`]+|(?<![\w/~-])[\w~-]*/[\w./-]*\w|(?<![\w/.-])[\w-]+\.[A-Za-z]\w{0,5}(?![\w/])"
)


class Sentence(NamedTuple):
    """A sentence that says something which can be checked."""

    start: int
    end: int
    events: tuple[int, ...]
    """Where what it says was seen; none: nowhere."""
    missing: tuple[str, ...]
    """What of it was seen nowhere."""


def trace_sentences(answer: str, observed: Sequence[Observation], told: Sequence[str]) -> list[Sentence]:
    """Return the sentences of an answer that rest on results, and those that should and do not.

    What the person has said (`told`) needs no other ground. Sentences without anything to check are left out.
    """
    seen = [(each.seq, FlatText(each.text)) for each in observed]
    known = FlatText("\n".join(told))
    found: list[Sentence] = []
    for start, end in _sentences(answer):
        sentence = _trace(answer[start:end], start, end, seen, known)
        if sentence is not None:
            found.append(sentence)
            if len(found) >= MAX_SENTENCES:
                break
    return found


def rests_on(answer: str, text: str) -> bool:
    """Tell whether a sentence of an answer rests on a text, or stands there word for word."""
    flat = FlatText(text)
    repeated = (answer[start:end] for start, end in _sentences(answer))
    return any(len(each.split()) >= _MIN_WORDS and flat.has(each) for each in repeated) or any(
        sentence.events for sentence in trace_sentences(answer, [Observation(0, text)], ())
    )


def sentence_objects(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Return sentences as a payload has them."""
    return [
        {"start": each.start, "end": each.end, "events": [*each.events], "missing": [*each.missing]}
        for each in sentences
    ]


def _sentences(answer: str) -> Iterator[tuple[int, int]]:
    """Return where sentences begin and end; code is none."""
    blank = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), answer[:MAX_TRACED])
    for match in _SENTENCE.finditer(blank):
        text = match[0]
        if text.strip():
            start = match.start() + len(text) - len(text.lstrip(" \t#>*-"))
            yield start, match.end() - (len(text) - len(text.rstrip()))


def _trace(text: str, start: int, end: int, seen: Sequence[tuple[int, FlatText]], known: FlatText) -> Sentence | None:
    facts = facts_in(text)
    names = [name.rstrip(".,;:") for name in _NAMES.findall(text)]
    wanted = list(dict.fromkeys((*facts, *names)))
    if not wanted:
        events = _by_words(text, seen)
        return Sentence(start, end, events, ()) if events else None
    open_facts = [fact for fact in wanted if not known.has(fact)]
    if not open_facts:
        events = _by_words(text, seen)
        return Sentence(start, end, events, ()) if events else None
    missing = tuple(fact for fact in open_facts if not any(flat.has(fact) for _, flat in seen))
    scored = [(sum(flat.has(fact) for fact in open_facts), seq) for seq, flat in seen]
    best = sorted((each for each in scored if each[0]), key=lambda each: (-each[0], -each[1]))
    return Sentence(start, end, tuple(sorted(seq for _, seq in best[:MAX_EVENTS])), missing)


def _by_words(text: str, seen: Sequence[tuple[int, FlatText]]) -> tuple[int, ...]:
    """Return the result that has most of a sentence's words."""
    words = list(dict.fromkeys(word.casefold() for word in _WORD.findall(text)))
    if len(words) < _MIN_WORDS:
        return ()
    for seq, flat in reversed(seen):
        if sum(word in flat.text for word in words) >= _SHARE * len(words):
            return (seq,)
    return ()
