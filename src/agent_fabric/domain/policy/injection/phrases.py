"""Finds signs in the words of a text: rules of ideas that stand close together."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntFlag
from functools import cache, lru_cache, reduce
from operator import or_
from typing import NamedTuple

from agent_fabric.domain.policy.injection import words_english
from agent_fabric.domain.policy.injection.folding import fold, spellings

Idea = IntFlag(
    "Idea",
    "IGNORE DEFY OVERRIDING PRIOR INSTR TOLD YOU YOUR NEW TASK VOID NEG TELL USER HIDE FROMUSER MENTION THISTEXT "
    "SHOW PROMPT VERBATIM REPEAT ABOVE EVERYTHING AI BOT UNBOUND WITHOUT LIMITS BECOME JAILBREAK SEND SENSITIVE "
    "DEST FETCH MUST GRANT ADDRESSED MAKER LIFTED PREAPPROVED KEYFILE INCLUDE ITSCONTENT RUN NOASK SHELLY DECODE "
    "ENCODING OBEY TOOL CALL RISKY BEGINS ENDS",
)
"""What orders to a model are made of; `words_english` has the words. DEFY is to ignore, and nothing milder; VOID is no
longer in force; BOT may be a model, a person or a program; DEST is an address to send to; KEYFILE a file that holds
secrets; ADDRESSED speaks to a model; MAKER claims to come from who may give orders; OVERRIDING sets new orders above
others by itself. At BEGINS a phrase may begin, at ENDS a sentence ends."""


_BEGINS, _ENDS, _DEST = int(Idea.BEGINS), int(Idea.ENDS), int(Idea.DEST)


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


class SignalRule(NamedTuple):
    """Ideas that make a sign when all others are met near the first."""

    sign: str
    anchor: int
    """The rarest of its ideas: where it stands, the others are looked for."""
    ideas: int
    """All of them."""
    within: int
    """How many words the others may be away."""


def _rule(sign: str, ideas: str, within: int) -> SignalRule:
    bits = [int(Idea[name]) for name in ideas.split()]
    return SignalRule(sign, bits[0], sum(bits), within)


RULES = (
    _rule("override", "IGNORE PRIOR INSTR", 7),
    _rule("override", "IGNORE YOUR INSTR", 6),
    _rule("override", "IGNORE TOLD YOU", 7),
    _rule("override", "DEFY PROMPT", 4),
    _rule("override", "OVERRIDING", 0),
    _rule("override", "TASK YOUR NEW", 3),
    _rule("override", "VOID PRIOR INSTR", 8),
    _rule("override", "VOID YOUR INSTR", 6),
    _rule("secrecy", "USER NEG TELL", 5),
    _rule("secrecy", "FROMUSER HIDE", 8),
    _rule("secrecy", "THISTEXT NEG MENTION", 6),
    _rule("prompt_leak", "PROMPT SHOW YOUR", 7),
    _rule("prompt_leak", "PROMPT SHOW VERBATIM", 7),
    _rule("prompt_leak", "ABOVE REPEAT EVERYTHING", 5),
    _rule("persona", "BECOME WITHOUT LIMITS", 12),
    _rule("persona", "LIMITS YOU WITHOUT AI", 9),
    _rule("persona", "LIMITS WITHOUT AI", 6),
    _rule("persona", "UNBOUND AI", 4),
    _rule("persona", "UNBOUND BOT", 4),
    _rule("persona", "JAILBREAK", 0),
    _rule("exfiltration", "DEST SEND SENSITIVE", 11),
    _rule("exfiltration", "DEST FETCH SENSITIVE", 8),
    _rule("exfiltration", "KEYFILE INCLUDE ITSCONTENT", 12),
    _rule("authority", "ADDRESSED MUST", 14),
    _rule("authority", "ADDRESSED GRANT", 14),
    _rule("authority", "ADDRESSED SEND", 10),
    _rule("authority", "ADDRESSED IGNORE", 10),
    _rule("authority", "PREAPPROVED AI", 8),
    _rule("authority", "AI MUST GRANT", 9),
    _rule("authority", "MAKER LIFTED", 12),
    _rule("authority", "MAKER AI MUST", 12),
    _rule("encoded", "ENCODING DECODE OBEY", 12),
    _rule("shell", "SHELLY AI RUN", 14),
    _rule("shell", "SHELLY BOT RUN MUST", 14),
    _rule("shell", "SHELLY RUN NOASK", 14),
    _rule("shell", "ADDRESSED SHELLY", 14),
    _rule("tool_call", "RISKY CALL TOOL", 12),
)

FARTHEST = max(rule.within for rule in RULES)

SPACED_OUT = ("ignore", "override", "previousinstr", "systemprompt", "disregard", "donottellthe")
"""What is looked for in letters that stand alone, l i k e t h i s."""


_PIECES = r"https?://[^\s<>\"')]*|\w+@?|[.!?](?=\s|$)|\n(?:\r?\n|[-*#>|])"
"""Addresses, words, and ends of sentences: simple runs, of which none is read twice."""
_MAX_WORD_CHARS = 40


class PhraseSignals(NamedTuple):
    """What the words of a text say."""

    signs: frozenset[str]
    ideas: int
    """All ideas in the text, wherever they stand."""


def findings_in(plain: str) -> PhraseSignals:
    """Signs and ideas in a folded text, in time that grows with its length only."""
    words: list[str] = re.findall(_PIECES, plain.replace("_", " "))
    marks = _marks(words)
    everything = reduce(or_, set(marks), 0)
    rules = tuple(rule for rule in RULES if everything & rule.ideas == rule.ideas)
    anchors = reduce(or_, (rule.anchor for rule in rules), 0)
    signs: set[str] = set()
    if anchors:
        for at, mark in enumerate(marks):
            if mark & anchors:
                signs.update(_signs_at(marks, at, rules))
    if _spaced_out(words):
        signs.add("override")
    return PhraseSignals(frozenset(signs), everything)


def _marks(words: list[str]) -> list[int]:
    """The ideas of each word; those of a phrase stand at its first word."""
    marks = [_ideas_of(word) if len(word) <= _MAX_WORD_CHARS else _ideas_of_long(word) for word in words]
    for at, mark in enumerate(marks):
        if mark & _BEGINS:
            marks[at] |= lexicon().phrases_at(words, at)
    return marks


@lru_cache(maxsize=16_384)
def _ideas_of(word: str) -> int:
    if word[0] in ".!?\n":
        return _ENDS
    if word[-1] == "@" or word.startswith(("http://", "https://")):
        return _DEST
    return lexicon().ideas_of(word)


def _ideas_of_long(word: str) -> int:
    """What a word is that is too long to be looked up or remembered."""
    return _DEST if word.startswith(("http://", "https://")) else 0


def _signs_at(marks: list[int], at: int, rules: Iterable[SignalRule]) -> Iterator[str]:
    """Signs whose anchor stands here."""
    here = marks[at]
    # By distance: all ideas that are at most so far away, in the same sentence.
    near = [here] * (FARTHEST + 1)
    before, after = marks[max(0, at - FARTHEST) : at][::-1], marks[at + 1 : at + 1 + FARTHEST]
    for side in (before, after):
        seen = distance = 0
        for mark in side:
            distance += 1
            if not seen & _ENDS:
                seen |= mark
            near[distance] |= seen
        for beyond in range(distance + 1, FARTHEST + 1):
            near[beyond] |= seen
    for rule in rules:
        if rule.anchor & here and near[rule.within] & rule.ideas == rule.ideas:
            yield rule.sign


def _spaced_out(words: list[str]) -> bool:
    """Whether single letters in a row spell out an order."""
    letters = "".join([word if len(word) == 1 else " " for word in words])
    return any(order in letters for order in SPACED_OUT)
