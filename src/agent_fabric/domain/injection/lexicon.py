"""Which ideas a word stands for, in all languages at once."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from agent_fabric.domain.injection import words_asian, words_english, words_european
from agent_fabric.domain.injection.folding import folded, spellings
from agent_fabric.domain.injection.ideas import Idea

LANGUAGES: tuple[Mapping[str, str], ...] = (
    words_english.WORDS,
    *(words_european.GERMAN, words_european.FRENCH, words_european.SPANISH, words_european.ITALIAN),
    *(words_european.PORTUGUESE, words_european.DUTCH, words_european.POLISH, words_european.RUSSIAN),
    *(words_european.TURKISH, words_asian.CHINESE, words_asian.JAPANESE, words_asian.KOREAN),
    *(words_asian.ARABIC, words_asian.HINDI),
)
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
    unspaced: dict[str, list[str]]
    """Words of scripts without spaces, by their first letter, the longest first."""

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

    def split(self, run: str) -> list[str]:
        """Split a run of letters without spaces: known words, the longest first, and pairs of other letters."""
        found: list[str] = []
        at, unknown = 0, ""
        while at < len(run):
            word = self._unspaced_at(run, at)
            if word or len(unknown) == 2:
                found.append(unknown)
                unknown = ""
            if word:
                found.append(word)
            else:
                unknown += run[at]
            at += len(word) or 1
        found.append(unknown)
        return [piece for piece in found if piece]

    def _unspaced_at(self, run: str, at: int) -> str:
        for word in self.unspaced.get(run[at], ()):
            if run.startswith(word, at):
                return word
        return ""


@cache
def lexicon() -> Lexicon:
    """All languages, sorted on first use."""
    exact: dict[str, int] = {}
    stems: dict[str, list[tuple[str, int]]] = {}
    phrases: dict[str, dict[str, list[Phrase]]] = {}
    for language in (*LANGUAGES, {"ADDRESSED": words_english.addressed()}):
        for name, entries in language.items():
            idea = int(Idea[name])
            for entry in entries.split():
                open_end = entry.endswith("*")
                # Folding keeps `_`, and no word has one: texts are split at it.
                first, *rest = folded(entry.removesuffix("*")).split("_")
                if rest:
                    second = "" if open_end and len(rest) == 1 else rest[0]
                    by_second = phrases.setdefault(first, {})
                    by_second.setdefault(second, []).append(Phrase(tuple(rest), open_end, idea))
                elif open_end:
                    stems.setdefault(first[:2], []).append((first, idea))
                else:
                    exact[first] = exact.get(first, 0) | idea
    unspaced: dict[str, list[str]] = {}
    for word in sorted(filter(without_spaces, exact), key=len, reverse=True):
        unspaced.setdefault(word[0], []).append(word)
    return Lexicon(exact, stems, phrases, unspaced)


def without_spaces(word: str) -> bool:
    """Whether the word has letters of Chinese or Japanese."""
    return any("\u3040" <= letter <= "\u9fff" for letter in word)
