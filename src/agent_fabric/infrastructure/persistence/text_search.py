"""Full-text search, the one query that databases do not share: how each finds words, and how they are put there."""

import re
import unicodedata
from typing import Final, NamedTuple, Protocol

TRIGRAM: Final = 3
"""The index of tasks and summaries knows sequences of this many characters; shorter words are found only whole."""
_MIN_PREFIX: Final = 3
"""Shorter words of what runs did are found only whole: as beginnings they would fit nearly everything."""
_MAX_WORDS: Final = 64
_WITHOUT_SPACES = re.compile("([\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])")
"""Characters of languages that do not put spaces between words: each counts as a word."""


class Match(NamedTuple):
    """A condition on a table of words, and the values for its question marks."""

    sql: str
    values: tuple[str, ...]


class TextSearch(Protocol):
    """How one database searches texts."""

    put_text: str
    """Puts a text into `run_text`: row, text, its short words, and the run, which must exist."""
    put_activity: str
    """Puts a text into `run_activity`: row, text as `indexed` returns it, and the run, which must exist."""
    by_words: str
    """Query: the rows of `run_words` that fit what `any_of` returns, the best first; and how many at most."""

    def in_text(self, word: str) -> Match:
        """Return the condition under which a row of `run_text` has a word or phrase."""
        ...

    def in_activity(self, *terms: str) -> Match:
        """Return the condition under which a row of `run_activity` has a word or phrase, or words that begin so."""
        ...

    def indexed(self, text: str) -> str:
        """Return a text as it is put into `run_activity`."""
        ...

    def any_of(self, text: str) -> str:
        """Return what finds texts that share a word with this one; empty if it has no words."""
        ...


class SqliteTextSearch:
    """TextSearch with FTS5."""

    put_text = (
        "INSERT OR REPLACE INTO run_text (rowid, text, short) SELECT ?, ?, ?"
        " WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
    )
    put_activity = (
        "INSERT INTO run_activity (rowid, text) SELECT ?, ? WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
    )
    by_words = "SELECT rowid FROM run_words WHERE run_words MATCH ? ORDER BY rank LIMIT ?"

    def in_text(self, word: str) -> Match:
        quoted = word.replace('"', '""')
        match = f'text : "{quoted}"' if len(word) >= TRIGRAM else f'short : " {quoted} "'
        return Match("run_text MATCH ?", (match,))

    def in_activity(self, *terms: str) -> Match:
        return Match("run_activity MATCH ?", (" OR ".join(map(self._activity, terms)),))

    def _activity(self, term: str) -> str:
        quoted = spaced(term).replace('"', '""')
        last = re.split(r"\W+", quoted.strip())[-1]
        return f'"{quoted}" *' if len(last) >= _MIN_PREFIX else f'"{quoted}"'

    def indexed(self, text: str) -> str:
        return text

    def any_of(self, text: str) -> str:
        return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text)[:_MAX_WORDS])


class PostgresTextSearch:
    """TextSearch with tsvector. Words are split here, as FTS5 does it: the server's parser does not."""

    put_text = (
        "INSERT INTO run_text (rowid, text, short) SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
        " ON CONFLICT (rowid) DO UPDATE SET text = excluded.text, short = excluded.short"
    )
    put_activity = (
        "INSERT INTO run_activity (rowid, text) SELECT ?, to_tsvector('simple', ?)"
        " WHERE EXISTS (SELECT 1 FROM runs WHERE number = ?)"
    )
    by_words = (
        "SELECT rowid FROM run_words, to_tsquery('english', ?) AS wanted WHERE words @@ wanted"
        " ORDER BY ts_rank(words, wanted) DESC, rowid DESC LIMIT ?"
    )

    def in_text(self, word: str) -> Match:
        return (
            Match("strpos(text, ?) > 0", (word,))
            if len(word) >= TRIGRAM
            else Match("strpos(short, ?) > 0", (f" {word} ",))
        )

    def in_activity(self, *terms: str) -> Match:
        phrases = [_phrase(words) for words in map(_words, map(spaced, terms)) if words]
        if not phrases:
            return Match("1 = 0", ())
        return Match("text @@ to_tsquery('simple', ?)", (" | ".join(f"({phrase})" for phrase in phrases),))

    def indexed(self, text: str) -> str:
        return " ".join(_words(text))

    def any_of(self, text: str) -> str:
        return " | ".join(f"'{word}'" for word in re.findall(r"\w+", text)[:_MAX_WORDS])


def spaced(text: str) -> str:
    """Return a text in which every word is one: some languages put no spaces in between."""
    return text if text.isascii() else _WITHOUT_SPACES.sub(r" \1 ", text)


def _phrase(words: list[str]) -> str:
    phrase = " <-> ".join(f"'{word}'" for word in words)
    return f"{phrase}:*" if len(words[-1]) >= _MIN_PREFIX else phrase


def _words(text: str) -> list[str]:
    """Return the words of a text, in lower case and without accents."""
    if not text.isascii():
        text = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return re.findall(r"[^\W_]+", text.lower())
