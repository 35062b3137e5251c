"""Where text may be cut without tearing a character apart that people see as one.

A close approximation of the extended grapheme clusters of UAX #29 from what Python knows of Unicode: whatever could
continue a character is kept with it.
"""

import unicodedata
from typing import Final

_JOINER: Final = "\u200d"
_REGIONAL: Final = range(0x1F1E6, 0x1F200)
_SKIN: Final = range(0x1F3FB, 0x1F400)
_TAGS: Final = range(0xE0020, 0xE0080)
_JAMO: Final = range(0x1100, 0x1200)
MAX_GRAPHEME: Final = 64
"""Longer ones, such as a letter under thousands of accents, may be cut."""


def utf16_units(text: str) -> int:
    """Return how many UTF-16 units a text has, which is what most platforms count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def may_cut(text: str, at: int) -> bool:
    """Tell whether a text may be cut before the character at an index."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return False
    if before == _JOINER or _continues(after):
        return False
    if ord(before) in _JAMO and ord(after) in _JAMO:
        return False
    if ord(before) in _REGIONAL and ord(after) in _REGIONAL:
        return _regional_before(text, at) % 2 == 0
    return True


def cut_before(text: str, at: int) -> int:
    """Return the last place at or before an index where a text may be cut; the index itself if there is none near."""
    for place in range(at, max(at - MAX_GRAPHEME, 0), -1):
        if may_cut(text, place):
            return place
    return at


def _continues(character: str) -> bool:
    code = ord(character)
    if code < 0x300:
        return False
    return (
        character == _JOINER or code in _SKIN or code in _TAGS or unicodedata.category(character) in {"Mn", "Me", "Mc"}
    )


def _regional_before(text: str, at: int) -> int:
    count = 0
    while at - count > 0 and ord(text[at - count - 1]) in _REGIONAL:
        count += 1
    return count
