"""The words of a text as searches compare them: folded, without endings, in pairs where a language has no spaces."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

_WITHOUT_SPACES: Final = "\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PARTS: Final = re.compile(rf"[{_WITHOUT_SPACES}]+|[^\W{_WITHOUT_SPACES}]+")
_FIRST_WITHOUT_SPACES: Final = "\u0e00"
_SHORTEST_STEM: Final = 4
_ENDINGS: Final = ("ings", "ing", "ies", "ied", "es", "ed", "ly", "s", "e", "y")
"""The last two, so that `store` and `company` are found by `stores` and `companies`."""
_FAMILIES: Final = (
    "ations ation ators ator ions ion ments ment ness ers er able ible al ing ed es s e y"
    " ungen ung heiten heit keiten keit ischen ische isch lichen liche lich enden ende end et en ern em te"
    " ements ement euses euse eurs eur ees ee aient ait ez ons ant"
    " aciones acion imientos imiento mente ando iendo ados adas ado ada idos idas ido ida ar ir os as o a"
)
"""Endings of English, German, French and Spanish words, without accents."""
_FAMILY_ENDINGS: Final = tuple(sorted(_FAMILIES.split(), key=len, reverse=True))
_ENGLISH_WORDS: Final = (
    "a and are as at be by can did do does for from had has have how i is it its me my not of on or our than that the"
    " their them then there these they this to we were what when where which who why will with you your"
)
_GERMAN_WORDS: Final = (
    "der das ein eine einen einem einer und oder ist sind war wie wer wo wann warum welche welcher welches für von mit"
    " im auf zu zum zur den dem des nicht es wir ich sie er"
)
_WORDS_OF_BOTH: Final = "am an die in man so was"
_ENGLISH: Final = frozenset(_ENGLISH_WORDS.split())
_GERMAN: Final = frozenset(_GERMAN_WORDS.split())
_COMMON: Final = _ENGLISH | _GERMAN | frozenset(_WORDS_OF_BOTH.split())
"""Words that say nothing about what is meant, in English and German."""
_MORE_ENGLISH: Final = "all any but he her his if into no now she should some up us was would"
_MORE_GERMAN: Final = (
    "eines waren welchen vom als auch aus bei beim bin bis da dass du durch haben hat hatte ihr ihre ihrer kann kein"
    " keine keinen können mein meine nach noch nur ob ohne sein seine sich soll über um uns unser unsere unter viel vor"
    " weil wenn werden wird wurde"
)
_TELLS_ENGLISH: Final = _ENGLISH | frozenset(_MORE_ENGLISH.split())
_TELLS_GERMAN: Final = _GERMAN | frozenset(_MORE_GERMAN.split())
"""Words that tell the language. They are indexed, unless they are common: `unter` or `no` may be what is asked for."""
_ASKING: Final = frozenset("的了吗呢哪谁什么怎在のはがを")
"""Characters that ask or join, where a language has no spaces. What they stand in says nothing about what is meant."""


def terms_in(text: str) -> list[str]:
    """Return the words of a text in their order, repeated as they are; common words are left out."""
    return list(_terms(fold(text)))


def question_terms(text: str) -> frozenset[str]:
    """Return the words that a question asks for; the common ones, if it has no others."""
    folded = fold(text)
    terms = frozenset(_terms(folded))
    telling = frozenset(term for term in terms if _ASKING.isdisjoint(term))
    return telling or terms or frozenset(_PARTS.findall(folded))


def family_of(term: str) -> str:
    """Return what words of one stem have in common: `rotation` and `rotates`, `Kündigung` and `kündigen`.

    Coarser than the terms of the index, and for where nothing compares meaning.
    """
    for ending in _FAMILY_ENDINGS:
        if term.endswith(ending) and len(term) - len(ending) >= _SHORTEST_STEM:
            return term[: -len(ending)]
    return term


def language_of(text: str) -> str:
    """Return the language that the small words of a text are of: `en`, `de`; empty: no one can tell.

    Where a language has no spaces, its script is named instead.
    """
    words = _PARTS.findall(text.casefold())
    english, german = (sum(word in telling for word in words) for telling in (_TELLS_ENGLISH, _TELLS_GERMAN))
    if english != german:
        return "en" if english > german else "de"
    return "without spaces" if any(map(_is_without_spaces, words)) else ""


def fold(text: str) -> str:
    """Return a text in lower case, without accents, with one form of each character."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold()
    taken_apart = unicodedata.normalize("NFD", plain)
    # Only accents of letters: marks of other scripts make another letter, and have to stay.
    kept = "".join(each for each in taken_apart if not "\u0300" <= each <= "\u036f")
    return unicodedata.normalize("NFC", kept)


def _terms(folded: str) -> Iterator[str]:
    for part in _PARTS.findall(folded):
        if part[0] >= _FIRST_WITHOUT_SPACES and _is_without_spaces(part):
            yield from map("".join, pairwise(part)) if len(part) > 1 else part
        elif part not in _COMMON:
            yield _stem(part)


def _is_without_spaces(part: str) -> bool:
    return re.match(f"[{_WITHOUT_SPACES}]", part) is not None


def _stem(word: str) -> str:
    """Return a word without the commonest endings of English, if enough of it is left."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word
