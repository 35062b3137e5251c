"""Which ideas a word stands for."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from agent_fabric.domain.policy.injection import words_english
from agent_fabric.domain.policy.injection.folding import fold, spellings
from agent_fabric.domain.policy.injection.ideas import Idea

_BEGINS = int(Idea.BEGINS)


class Phrase(NamedTuple):
    """Several words in a row."""

    rest: tuple[str, ...]
    """The words after the first."""
    open_end: bool
    """The last word may go on."""
    idea: int

    def follows(self, words: Sequence[str], at: int) -> bool:
        """Whether the phrase goes on as the words after `at` do."""
        last = at + len(self.rest)
        if last >= len(words) or not words[last].startswith(self.rest[-1]):
            return False
        return (self.open_end or words[last] == self.rest[-1]) and tuple(words[at + 1 : last]) == self.rest[:-1]


class Lexicon(NamedTuple):
    """All words, sorted for looking up."""

    exact: dict[str, int]
    stems: dict[str, list[tuple[str, int]]]
    """Words with any ending, by their first two letters."""
    phrases: dict[str, dict[str, list[Phrase]]]
    """By their first word, then by their second; under "" where the second may go on."""

    def ideas_of(self, word: str) -> int:
        """What a folded word may stand for, as bits of `Idea`."""
        found = 0
        for spelling in spellings(word):
            found |= self.exact.get(spelling, 0)
            for stem, idea in self.stems.get(spelling[:2], ()):
                if spelling.startswith(stem):
                    found |= idea
            if spelling in self.phrases:
                found |= _BEGINS
        return found

    def phrases_at(self, words: Sequence[str], at: int) -> int:
        """What the phrases that begin here stand for, as bits of `Idea`."""
        second = words[at + 1] if at + 1 < len(words) else ""
        by_second, found = self.phrases.get(words[at], {}), 0
        for phrase in (*by_second.get(second, ()), *by_second.get("", ())):
            if phrase.follows(words, at):
                found |= phrase.idea
        return found


@cache
def lexicon() -> Lexicon:
    """All words, sorted on first use."""
    exact: dict[str, int] = {}
    stems: dict[str, list[tuple[str, int]]] = {}
    phrases: dict[str, dict[str, list[Phrase]]] = {}
    for name, entries in (*words_english.WORDS.items(), ("ADDRESSED", words_english.address_forms())):
        idea = int(Idea[name])
        for entry in entries.split():
            open_end = entry.endswith("*")
            # Folding keeps `_`, and no word has one: texts are split at it.
            first, *rest = fold(entry.removesuffix("*")).split("_")
            if rest:
                second = "" if open_end and len(rest) == 1 else rest[0]
                by_second = phrases.setdefault(first, {})
                by_second.setdefault(second, []).append(Phrase(tuple(rest), open_end, idea))
            elif open_end:
                stems.setdefault(first[:2], []).append((first, idea))
            else:
                exact[first] = exact.get(first, 0) | idea
    return Lexicon(exact, stems, phrases)
