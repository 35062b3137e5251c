"""Which passages answer a question: a weighted sum of words and meaning, the same for every database.

A database only chooses candidates. Ranks are not fused: they say nothing about how well something fits. The share of
the question's words that stand in a passage is raised to a power: one shared word in five is chance, and must not
outweigh meaning, while a passage with all of them is the one that was meant (ADR 0056, 0076).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.terms import family_of, language_of, question_terms, terms_in

WORDS_WEIGHT: Final = 0.6
"""What all words of the question are worth, if meaning is worth 1."""
WORDS_POWER: Final = 2.5
ABSENT_WORTH: Final = 0.3
"""What a word of the question that stands in no candidate counts: it tells none of them apart."""
LONG_CHARS: Final = 1_200
"""In longer passages words count for less, in proportion: they stand there by chance more often."""
MIN_MEANING: Final = 0.14
"""The cosine that the nearest passage has to have; below it memory has nothing: an answer without passages is better
than one from the wrong ones."""
MIN_MEANING_ABSENT: Final = 0.2
"""The same, if most words of the question stand nowhere."""
MIN_MEANING_TRANSLATED: Final = 0.175
"""The same, if the passage is in another language: even the right one is not very near."""
MIN_MEANING_NAME: Final = 0.45
"""The same, if they are in the same language and hardly more than a name is known: what is asked about is not."""
ABSENT_SHARE: Final = 0.6
"""How much of a question has to stand nowhere for the second threshold; rare words count for more."""
NAME_SHARE: Final = 0.8
"""How much for the last two."""
MIN_OF_BEST: Final = 0.3
"""Passages that fit much less than the best one are left out."""
MIN_WORDS: Final = 0.5
"""Where there are no vectors, so much of the question has to stand in the passage."""
ALIKE: Final = 0.9
"""Passages that share so many of their sequences of words say the same."""
_SHINGLE: Final = 4
MAX_EARLIER_CHARS: Final = 400
WHOLE_SHARE: Final = 0.25
"""A document that takes no more of the model's window is given as a whole."""


class Candidate(NamedTuple):
    """A passage that may answer a question."""

    document_id: DocumentId
    ordinal: int
    indexed: str
    """Its text with the headings above it."""
    meaning: float | None = None
    """The cosine of its vector with that of the question; None: it has none."""
    terms: frozenset[str] | None = None
    """The words of the question that stand in it; None: no one has looked."""

    def shared_terms(self, asked: frozenset[str]) -> frozenset[str]:
        """Return the words of a question that stand in it."""
        return shared_by_family(asked, terms_in(self.indexed)) if self.terms is None else self.terms


def shared_by_family(asked: frozenset[str], there: Iterable[str]) -> frozenset[str]:
    """Return the words of a question of which a text has one with the same stem."""
    families = set(map(family_of, there))
    return frozenset(term for term in asked if family_of(term) in families)


class Ranked(NamedTuple):
    """A passage, and how well it fits."""

    candidate: Candidate
    score: float
    """From 0 to 1."""
    words: float
    """How much of the question stands in it, from 0 to 1; rare words count for more."""


class Excerpt(NamedTuple):
    """Neighbouring passages of one document that fit a question."""

    document_id: DocumentId
    first: int
    last: int
    """Ordinals of its first and last passage."""
    score: float
    """That of the best of them."""


def follow_up(question: str, earlier: str) -> str:
    """Return what is looked for when a question follows another: `And on Sundays?` says nothing by itself."""
    return f"{earlier[-MAX_EARLIER_CHARS:].strip()}\n{question}" if earlier.strip() else question


def rank(
    question: str,
    candidates: Sequence[Candidate],
    *,
    weight: float = WORDS_WEIGHT,
    min_words: float = MIN_WORDS,
) -> list[Ranked]:
    """Return the candidates that fit well enough, the best first; none, if memory has nothing about the question."""
    asked = question_terms(question)
    known = [candidate.shared_terms(asked) for candidate in candidates]
    worth = _worth(asked, known)
    whole = sum(worth.values()) or 1.0
    absent = sum(worth[term] for term in asked.difference(*known)) / whole
    is_known = _is_known(question, candidates, absent)
    found: list[Ranked] = []
    for candidate, shared in zip(candidates, known, strict=True):
        words = sum(worth[term] for term in shared) / whole
        if candidate.meaning is None:
            # Half of the words is enough, whatever they are worth: the score says that it is not all.
            score, enough = words, max(words, len(shared) / (len(asked) or 1)) >= min_words
        else:
            matched = words / (1 - (1 - ABSENT_WORTH) * absent)
            bonus = weight * matched**WORDS_POWER * min(1.0, LONG_CHARS / (len(candidate.indexed) or 1))
            score, enough = (max(candidate.meaning, 0.0) + bonus) / (1 + weight), is_known
        if enough:
            found.append(Ranked(candidate, min(score, 1.0), words))
    least = MIN_OF_BEST * max((each.score for each in found), default=0.0)
    fitting = [each for each in found if each.score >= least]
    return sorted(fitting, key=lambda each: (-each.score, each.candidate.document_id, each.candidate.ordinal))


def _is_known(question: str, candidates: Sequence[Candidate], absent: float) -> bool:
    """Tell whether what is near has to do with the question, of which so much stands in no candidate."""
    compared = [each for each in candidates if each.meaning is not None]
    if not compared:
        return True  # words decide
    nearest = max(compared, key=lambda each: each.meaning or 0.0)
    return (nearest.meaning or 0.0) >= _least_meaning(question, nearest.indexed, absent)


def _least_meaning(question: str, passage: str, absent: float) -> float:
    """Return how near a passage has to be.

    Other words for the same are found by meaning alone, and so is another language. A name is near to all that was said
    about its bearer, so a question of which only the name is known needs more than one of which nothing is known.
    """
    if absent < ABSENT_SHARE:
        return MIN_MEANING
    languages = {language_of(question), language_of(passage)}
    if absent < NAME_SHARE or "" in languages:
        return MIN_MEANING_ABSENT
    if len(languages) > 1:
        return MIN_MEANING_TRANSLATED
    return MIN_MEANING_NAME if absent < 1 else MIN_MEANING_ABSENT


def without_duplicates(ranked: Iterable[Ranked], *, limit: int | None = None) -> list[Ranked]:
    """Return what says something that no better passage says; at most so many."""
    kept: list[tuple[Ranked, frozenset[tuple[str, ...]]]] = []
    for each in ranked:
        if limit is not None and len(kept) >= limit:
            break
        shingles = _shingles(each.candidate.indexed.partition("\n")[2] or each.candidate.indexed)
        if not any(_likeness(shingles, other) >= ALIKE for _, other in kept):
            kept.append((each, shingles))
    return [each for each, _ in kept]


def merge_neighbours(ranked: Sequence[Ranked]) -> list[Excerpt]:
    """Return the passages with neighbours put together, the best first."""
    places = sorted((each.candidate.document_id, each.candidate.ordinal, each.score) for each in ranked)
    merged: list[Excerpt] = []
    for document_id, ordinal, score in places:
        last = merged[-1] if merged else None
        if last is not None and last.document_id == document_id and ordinal <= last.last + 1:
            merged[-1] = last._replace(last=ordinal, score=max(last.score, score))
        else:
            merged.append(Excerpt(document_id, ordinal, ordinal, score))
    return sorted(merged, key=lambda each: (-each.score, each.document_id, each.first))


def _worth(asked: frozenset[str], known: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return what each word of the question is worth: the fewer candidates have it, the more it tells them apart."""
    having = Counter(term for shared in known for term in shared)
    return {term: math.log(1 + (len(known) + 1) / (having[term] + 0.5)) for term in asked}


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    terms = terms_in(text)
    if len(terms) < _SHINGLE:
        return frozenset({tuple(terms)})
    return frozenset(tuple(terms[at : at + _SHINGLE]) for at in range(len(terms) - _SHINGLE + 1))


def _likeness(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    return len(one & other) / (len(one | other) or 1)
