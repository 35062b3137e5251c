"""Full-text search, the one query that databases do not share: how each finds words, and how they are put there."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

TRIGRAM: Final = 3
"""The index of tasks and summaries knows sequences of this many characters; shorter words are found only whole."""
_MIN_PREFIX: Final = 3
"""Shorter words of what runs did are found only whole: as beginnings they would fit nearly everything."""
_MIN_STEM: Final = 4
"""Shorter stems are found only as whole terms, for the same reason."""
_MAX_WORDS: Final = 64
_MAX_GRAMS: Final = 64
"""Of a long word or phrase so many are looked up in the index; they leave few texts to look into."""
_WITHOUT_SPACES: Final = "[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
"""Characters of languages that do not put spaces between words: each counts as a word. Compiled when such a text comes:
it takes long, and most processes see none."""


class Match(NamedTuple):
    """A condition on a table of words, and the values for its question marks."""

    sql: str
    values: tuple[str, ...]


class TermMatch(NamedTuple):
    """A condition on `passage_words`, and how its rows are put in order: the best first."""

    condition: Match
    order: Match


class SqliteTextSearch:
    """How texts are searched with FTS5."""

    put_text = (
        "INSERT OR REPLACE INTO run_text (rowid, text, short) SELECT ?, ?, ?"
        " WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
    )
    """Puts a text into `run_text`: what `text_row` returns."""
    put_activity = (
        "INSERT INTO run_activity (rowid, text) SELECT ?, ? WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
    )
    """Puts a text into `run_activity`: row, text as `indexed` returns it, and the run, which must exist."""
    by_words = "SELECT rowid FROM run_words WHERE run_words MATCH ? ORDER BY rank LIMIT ?"
    """Query: the rows of `run_words` that fit what `any_of` returns, the best first; and how many at most."""
    put_terms = "INSERT INTO passage_words (rowid, terms) VALUES (?, ?)"
    """Puts the terms of a passage into `passage_words`: row, and what `term_row` returns."""
    terms_text = "passage_words.terms"
    """Expression: the terms of a row of `passage_words`, with spaces in between."""
    erase_terms = "INSERT INTO passage_words (passage_words, rank) VALUES ('secure-delete', 1)"
    """Makes deletions from `passage_words` overwrite their data; empty: nothing to do."""

    def term_row(self, terms: Sequence[str]) -> object:
        """Return the terms of a passage as `put_terms` takes them."""
        return " ".join(terms)

    def with_terms(self, terms: Sequence[str]) -> TermMatch:
        """Return what finds the passages that have one of these terms; there is at least one."""
        wanted = " OR ".join(f'"{term}"' for term in terms)
        return TermMatch(Match("passage_words MATCH ?", (wanted,)), Match("passage_words.rank", ()))

    def with_stems(self, stems: Iterable[str]) -> TermMatch:
        """Return what finds the passages with a term that begins with one of these; short ones are whole terms."""
        wanted = " OR ".join(f'"{stem}" *' if len(stem) >= _MIN_STEM else f'"{stem}"' for stem in stems)
        return TermMatch(Match("passage_words MATCH ?", (wanted,)), Match("passage_words.rank", ()))

    def text_row(self, row: int, text: str, short: Sequence[str], run: int) -> tuple[Any, ...]:
        """Return the values for `put_text`: row, text, its words that are too short, and the run, which must exist."""
        return row, text, f" {' '.join(short)} ", run

    def in_text(self, word: str) -> Match:
        """Return the condition under which a row of `run_text` has a word or phrase."""
        quoted = word.replace('"', '""')
        match = f'text : "{quoted}"' if len(word) >= TRIGRAM else f'short : " {quoted} "'
        return Match("run_text MATCH ?", (match,))

    def in_activity(self, *terms: str) -> Match:
        """Return the condition under which a row of `run_activity` has a word or phrase, or words that begin so."""
        return Match("run_activity MATCH ?", (" OR ".join(map(self._activity, terms)),))

    def _activity(self, term: str) -> str:
        quoted = space_words(term).replace('"', '""')
        last = re.split(r"\W+", quoted.strip())[-1]
        return f'"{quoted}" *' if len(last) >= _MIN_PREFIX else f'"{quoted}"'

    def text_to_index(self, text: str) -> str:
        """Return a text as it is put into `run_activity`."""
        return text

    def any_of(self, text: str) -> str:
        """Return what finds texts that share a word with this one; empty if it has no words."""
        return " OR ".join(f'"{word}"' for word in _query_words(text))


class PostgresTextSearch:
    """The same with tsvector. Words are split here, as FTS5 does it: the server's parser does not.

    A text is found anywhere by its sequences of three characters, which are the lexemes of its row; whether they stand
    in the right order is looked up in the text itself.
    """

    put_text = (
        "INSERT INTO run_text (rowid, text, grams) SELECT ?, ?, array_to_tsvector(CAST(? AS text[]))"
        " WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
        " ON CONFLICT (rowid) DO UPDATE SET text = excluded.text, grams = excluded.grams"
    )
    put_activity = (
        "INSERT INTO run_activity (rowid, text) SELECT ?, to_tsvector('simple', ?)"
        " WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
    )
    by_words = (
        "SELECT rowid FROM run_words, to_tsquery('english', ?) AS wanted WHERE words @@ wanted"
        " ORDER BY ts_rank(words, wanted) DESC, rowid DESC LIMIT ?"
    )
    put_terms = "INSERT INTO passage_words (rowid, terms) VALUES (?, array_to_tsvector(CAST(? AS text[])))"
    terms_text = "array_to_string(tsvector_to_array(passage_words.terms), ' ')"
    erase_terms = ""

    def term_row(self, terms: Sequence[str]) -> object:
        return sorted(set(terms))

    def with_terms(self, terms: Sequence[str]) -> TermMatch:
        wanted = " | ".join(map(_lexeme, terms))
        return TermMatch(
            Match("passage_words.terms @@ CAST(? AS tsquery)", (wanted,)),
            Match("ts_rank(passage_words.terms, CAST(? AS tsquery)) DESC", (wanted,)),
        )

    def with_stems(self, stems: Iterable[str]) -> TermMatch:
        wanted = " | ".join(f"{_lexeme(stem)}:*" if len(stem) >= _MIN_STEM else _lexeme(stem) for stem in stems)
        return TermMatch(
            Match("passage_words.terms @@ CAST(? AS tsquery)", (wanted,)),
            Match("ts_rank(passage_words.terms, CAST(? AS tsquery)) DESC", (wanted,)),
        )

    def text_row(self, row: int, text: str, short: Sequence[str], run: int) -> tuple[Any, ...]:
        return row, text, sorted({*_grams(text), *short}), run

    def in_text(self, word: str) -> Match:
        if len(word) < TRIGRAM:
            return Match("grams @@ CAST(? AS tsquery)", (_lexeme(word),))
        wanted = " & ".join(map(_lexeme, sorted(_grams(word))[:_MAX_GRAMS]))
        return Match("(grams @@ CAST(? AS tsquery) AND strpos(text, ?) > 0)", (wanted, word))

    def in_activity(self, *terms: str) -> Match:
        phrases = [_phrase(words) for words in map(_words, map(space_words, terms)) if words]
        if not phrases:
            return Match("1 = 0", ())
        return Match("text @@ to_tsquery('simple', ?)", (" | ".join(f"({phrase})" for phrase in phrases),))

    def text_to_index(self, text: str) -> str:
        return " ".join(_words(text))

    def any_of(self, text: str) -> str:
        return " | ".join(map(_lexeme, _query_words(text)))


TextSearch = SqliteTextSearch | PostgresTextSearch
"""How one database searches texts."""


def with_pairs(text: str) -> str:
    """Return a text with its pairs of characters behind it, where a language puts no spaces between words."""
    pairs = _pairs(text)
    return f"{text}\n{' '.join(pairs)}" if pairs else text


def _query_words(text: str) -> list[str]:
    """Return the words to look for, and the pairs that `with_pairs` has added."""
    return [*re.findall(r"\w+", text)[:_MAX_WORDS], *_pairs(text)[:_MAX_WORDS]]


def _pairs(text: str) -> list[str]:
    if text.isascii():
        return []
    found = (map("".join, pairwise(part)) for part in without_spaces(text))
    return list(dict.fromkeys(pair for pairs in found for pair in pairs))


def without_spaces(text: str) -> list[str]:
    """Return the parts of a text in languages that do not put spaces between words."""
    return [] if text.isascii() else re.findall(f"{_WITHOUT_SPACES}+", text)


def space_words(text: str) -> str:
    """Return a text in which every word is one: some languages put no spaces in between."""
    return text if text.isascii() else re.sub(f"({_WITHOUT_SPACES})", r" \1 ", text)


def _grams(text: str) -> set[str]:
    """Return all sequences of three characters of a text."""
    return {text[start : start + TRIGRAM] for start in range(len(text) - TRIGRAM + 1)}


def _lexeme(word: str) -> str:
    """Return a word as it is written in a query."""
    escaped = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _phrase(words: list[str]) -> str:
    phrase = " <-> ".join(f"'{word}'" for word in words)
    return f"{phrase}:*" if len(words[-1]) >= _MIN_PREFIX else phrase


def _words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without accents."""
    if not text.isascii():
        text = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return re.findall(r"[^\W_]+", text.lower())
