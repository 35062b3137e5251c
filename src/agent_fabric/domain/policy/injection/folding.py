"""Brings text to one plain spelling, so that disguises of a word look like the word."""

import re
import unicodedata

LIMIT = 200_000
"""Characters of a text that are looked at: three quarters from its head, the rest from its tail."""
ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

INVISIBLE = f"[{ZERO_WIDTH}{BIDI}\ufe00-\ufe0f\U000e0000-\U000e01ef]"
"""A pattern. Patterns of the scan are compiled where they are first used, so that starting up does not pay for them."""
_MARKS = "[\u0300-\u036f\u0640\u064b-\u065f\u0670]"
_PIECE = 512
"""Normalised at once: sorting the marks on one letter takes time by the square of their number."""
_LOOK_ALIKES = str.maketrans("аеоросухіјѕԁһвмнтκαορεινυτ", "aeopocyxijsdhbmhtkaopeivut")
"""Letters of Cyrillic and Greek that look like Latin ones."""
_DIGITS_AS_I = str.maketrans("0134578", "oieastb")
_DIGITS_AS_L = str.maketrans("0134578", "oleastb")


def cap(text: str) -> str:
    """The text itself, or head and tail of one that is very long."""
    if len(text) <= LIMIT:
        return text
    head = LIMIT * 3 // 4
    return f"{text[:head]}\n\n{text[head - LIMIT :]}"


def fold(text: str) -> str:
    """Small letters without accents, in compatible forms, without invisible characters."""
    if text.isascii():
        return text.lower()
    seen = re.sub(_MARKS, "", re.sub(INVISIBLE, "", text)).casefold()
    pieces = (seen[at : at + _PIECE] for at in range(0, len(seen), _PIECE))
    decomposed = "".join(unicodedata.normalize("NFKD", piece) for piece in pieces)[: 2 * LIMIT]
    bare = re.sub(_MARKS, "", decomposed)
    return "".join(unicodedata.normalize("NFC", bare[at : at + _PIECE]) for at in range(0, len(bare), _PIECE))


def spellings(word: str) -> tuple[str, ...]:
    """Which words a folded word may stand for: itself, and what its digits and foreign letters look like."""
    if word.isascii():
        if word.isalpha() or word.isdigit():
            return (word,)
        return (word, word.translate(_DIGITS_AS_I), word.translate(_DIGITS_AS_L))
    if any("a" <= letter <= "z" for letter in word):
        return (word, word.translate(_LOOK_ALIKES))
    return (word,)
