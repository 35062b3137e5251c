"""Facts that say the same, and facts that may contradict each other."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from agent_fabric.domain.memory.facts import Fact, FactStatus
from agent_fabric.domain.memory.terms import fold, terms_in
from agent_fabric.domain.policy.injection.folding import spellings

SAME: Final = 0.85
"""Two facts that share so many of their words say the same, if nothing that turns a sentence round differs."""
RELATED: Final = 0.5
"""Two facts that share so many of their words are about the same thing."""
_TURNING_WORDS: Final = (
    "not no never none without kein keine keinen keiner nicht nie niemals ohne always immer only nur except"
)
_TURNS: Final = frozenset(_TURNING_WORDS.split())
_VALUE: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD: Final = re.compile(r"\w+")


class Likeness(NamedTuple):
    """Known facts that a new one has to be held against."""

    duplicate: Fact | None
    """The one that says the same."""
    contradicted: tuple[Fact, ...]
    """Those about the same thing that say something else; a person chooses."""


def compare(text: str, known: Iterable[Fact]) -> Likeness:
    """Hold a text against the facts of its owner and scope that are in use or wait for a review."""
    words = _words(text)
    contradicted: list[tuple[float, Fact]] = []
    for fact in known:
        if fact.status not in (FactStatus.ACTIVE, FactStatus.PROPOSED):
            continue
        other = _words(fact.text)
        alike = len(words.terms & other.terms) / (len(words.terms | other.terms) or 1)
        if alike >= SAME and words.turns == other.turns and words.values == other.values:
            return Likeness(fact, ())
        if alike >= RELATED:
            contradicted.append((alike, fact))
    contradicted.sort(key=lambda each: (-each[0], each[1].id))
    return Likeness(None, tuple(fact for _, fact in contradicted))


class _Words(NamedTuple):
    terms: frozenset[str]
    turns: frozenset[str]
    """Words that turn a sentence round."""
    values: frozenset[str]
    """Numbers: in most contradictions only a number differs."""


def _words(text: str) -> _Words:
    folded = fold(text)
    # With letters of another alphabet in a word, a contradiction would pass for something else.
    terms = frozenset(term if term.isascii() else spellings(term)[-1] for term in terms_in(text))
    values = frozenset(_VALUE.findall(folded))
    return _Words(terms or frozenset({folded}), _TURNS & frozenset(_WORD.findall(folded)), values)
