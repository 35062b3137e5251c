"""Numbers and quotes of a summary that stand in nothing the run has seen."""

import re
from collections.abc import Iterable

MAX_MARKED = 8
_NUMBER = re.compile(r"(?<![\w.,:/-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w/-])|(?<![\w.,:/-])\d+(?:\.\d+)?(?![\w/-])")
_ANY_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_QUOTE = re.compile(r"“([^”\n]{8,300})”|(?<!\w)\"([^\"\n]{8,300})\"(?!\w)|`([^`\n]{4,300})`")
_SMALL = 10
"""Whole numbers below are counted and listed all the time; nothing follows from them."""


def find_unsupported(summary: str, seen: Iterable[str], counts: Iterable[int] = ()) -> tuple[str, ...]:
    """Return the numbers and quotes of a summary that neither what was seen nor the counts have.

    `seen` is all that the model was told and has written into its calls.
    """
    quotes = [next(filter(None, match.groups())) for match in _QUOTE.finditer(summary)]
    numbers = [match[0] for match in _NUMBER.finditer(_QUOTE.sub(" ", summary))]
    if not quotes and not numbers:
        return ()
    texts = list(seen)
    known = {_value(match[0]) for text in texts for match in _ANY_NUMBER.finditer(text)} | {float(n) for n in counts}
    missing = [number for number in numbers if not _is_small(number) and _value(number) not in known]
    flat = "\n".join(map(_flat, texts))
    missing += [quote for quote in quotes if _flat(quote).rstrip(".,;:!") not in flat]
    return tuple(dict.fromkeys(missing))[:MAX_MARKED]


def facts_in(text: str) -> list[str]:
    """Return the quotes, and the numbers that are not small, of a text."""
    quotes = [next(filter(None, match.groups())) for match in _QUOTE.finditer(text)]
    numbers = [match[0] for match in _NUMBER.finditer(_QUOTE.sub(" ", text))]
    return [*quotes, *(number for number in numbers if not _is_small(number))]


class FlatText:
    """A text in which facts are looked up."""

    def __init__(self, text: str) -> None:
        self.text = _flat(text)
        """Its words, in small letters."""
        self._numbers = {_value(match[0]) for match in _ANY_NUMBER.finditer(text)}

    def has(self, fact: str) -> bool:
        """Tell whether a quote, a number or a name stands in it."""
        if _ANY_NUMBER.fullmatch(fact):
            return _value(fact) in self._numbers
        return _flat(fact).rstrip(".,;:!") in self.text


def _is_small(number: str) -> bool:
    return "." not in number and _value(number) < _SMALL


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _flat(text: str) -> str:
    """Return a text so that only its words matter: JSON's escapes, quotes and spaces are written differently."""
    plain = text.replace("\\n", " ").replace("\\t", " ").replace('\\"', '"').replace("\\\\", "\\")
    return " ".join(plain.casefold().split())
