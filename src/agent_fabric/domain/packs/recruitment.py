"""Chooses who does a task: pure. Words of the task speak for specialists; what they leave open a model may settle.

The order: the packs that were named, then the sysadmin if a machine was chosen, then the score when it is clear, then a
routing model, then the fallback rule. The score adds up keywords, everyday signs and the project folder. In a
conversation no model is asked: what is not clearly for a specialist is for the assistant. Every choice comes with the
reasons for it, which are kept in the log; the first is a clause that says why by itself.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.packs.everyday_words import Kind
from agent_fabric.domain.packs.review import REVIEWER
from agent_fabric.domain.packs.signs import Signs, signs_of

ASSISTANT = SpecialistId("assistant")
"""Whom people talk to, and who does what nothing asks a specialist for."""
SYSADMIN = SpecialistId("sysadmin")
"""Whom they talk to where there are machines to look after."""
CLEAR_RATIO = 2
"""One specialist is clearly meant when the words for it count at least this many times those for any other."""
ENOUGH_FOR_FORCE = 2
"""Words that must speak for each specialist before keywords alone send several."""
CLEAR_LEAD = 2
"""A specialist leads clearly when its score is at least this much above that of any other."""
MAX_SPECIALISTS = 4
"""Largest task force that is put together by itself, unnamed."""

_FOR_CODE = SpecialistId("engineering")
_FOR_SOURCES = SpecialistId("research")
_KEYWORD_WEIGHT = 4
"""What each word of a keyword adds to a score; twice as much for those for whom nothing else can speak."""
_ORDINARY_WEIGHT = 1
"""What a keyword adds that is often said in everyday tasks as well."""
_ORDINARY_TEXT = """
    bug build class code compare comparison database develop error evidence fix function library module overview
    paper program publication python rust script sources studies study summarise summarize survey test
"""
_ORDINARY = frozenset(_ORDINARY_TEXT.split())
_PROJECT_WEIGHT = 5
"""What a project folder adds to the score of the pack that works on it."""
_NAMED_WORDS = 4
"""Words of a task that are told as the reason for a choice, at most."""
_LOOKED_AT = 20_000
"""Characters of a task that are searched; what follows is material."""
_CODE_LIKE = re.compile(
    r"```|Traceback \(most recent call last\)|#include\b|\bSELECT\b[^\n]{1,200}\bFROM\b"
    r"|\b(?:def|fn|func|function) \w+ ?\(|\bclass \w+ ?[({:]|\b\w+\(\)"
    r"|(?<![\w-])[\w-]+\.(?:py|js|ts|go|rs|c|cpp|h|java|rb|sh|sql|html|css|toml|ya?ml|json)\b"
)
_NAMES_FILES = re.compile(
    r"\b(?:README|Makefile|Dockerfile|CHANGELOG|LICENSE)\b|(?<![\w:/.-])(?:\./)?[\w-]+/[\w./-]*"
    r"|(?<![\w/.-])[\w-]+\.(?:md|txt|rst|csv|tsv|ini|cfg|xml|ipynb|lock|env|tex|pdf|docx?|xlsx?)\b"
    r"|\b(?:this|the|our|my) (?:project|repo|repository|code|codebase|folder|directory)\b"
)
"""What names files of a project folder, beside code."""
_ADDRESS = re.compile(r"\bhttps?://", re.IGNORECASE)
_WORD = re.compile(r"\w+[+#]*")
_UNSPACED = (
    *(("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff")),
    *(("\u2e80", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff")),
)
"""First and last letters of scripts that put no spaces between words: there, a keyword may stand anywhere."""
_ENDINGS = ("", "s", "es", "d", "ed", "ing")


def choosable(specialists: Sequence["Specialist"]) -> Sequence["Specialist"]:
    """Return those that may be chosen by themselves: all but the reviewer, unless the configuration says for what."""
    return [each for each in specialists if each.specialist_id != REVIEWER or each.keywords or each.capabilities]


class RoutingMethod(StrEnum):
    """How a choice came about; logged as `routing_method`."""

    EXPLICIT = "explicit"
    PROJECT = "project"
    KEYWORDS = "keywords"
    SCORE = "score"
    MODEL = "model"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialist:
    """A specialist that can be chosen."""

    specialist_id: SpecialistId
    description: str
    keywords: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    works_on_projects: bool = False
    """Whether it is the first choice for a task with a project folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recruitment:
    """Who does a task, and why."""

    specialist_ids: tuple[SpecialistId, ...]
    """In the order in which they work."""
    required_capabilities: tuple[str, ...]
    method: RoutingMethod
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the words of a task say about who should do it."""

    specialists: Sequence[Specialist]
    """All candidates, in the order of the configuration."""
    matched: Mapping[SpecialistId, tuple[str, ...]]
    """Keywords found for each, in the order of the configuration; only candidates with one."""
    mentions: Mapping[SpecialistId, int]
    """Where the first of them stands in the task."""
    asked_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The words that ask for each capability."""
    code_like: bool = False
    names_files: bool = False
    """Whether it names a file or the folder."""
    has_address: bool = False
    project: bool = False
    """Whether the run works on a project folder."""
    ignored: tuple[str, ...] = ()
    """Keywords that were found but do not count with a project folder."""
    signs: Signs = field(default_factory=dict)
    """What else the task says."""

    @property
    def required_capabilities(self) -> tuple[str, ...]:
        """What the words ask for."""
        return tuple(self.asked_by)

    def score(self, specialist_id: SpecialistId) -> int:
        """Count the words that speak for a candidate; a phrase counts as many times as it has words."""
        return sum(len(keyword.split()) for keyword in self.matched.get(specialist_id, ()))


def by_name(specialist_ids: Sequence[SpecialistId]) -> Recruitment:
    """Return the choice that a person has made."""
    return Recruitment(
        specialist_ids=tuple(specialist_ids),
        required_capabilities=(),
        method=RoutingMethod.EXPLICIT,
        reasons=("the task names it",),
    )


def about_machine(node: str) -> Recruitment:
    """Return the choice for a task that is about a machine of the fleet."""
    return Recruitment(
        specialist_ids=(SYSADMIN,),
        required_capabilities=(),
        method=RoutingMethod.EXPLICIT,
        reasons=(f"the machine {node} was chosen",),
    )


def weigh(
    prompt: str,
    specialists: Sequence[Specialist],
    capabilities: Mapping[str, Sequence[str]],
    *,
    project: bool = False,
    ambiguous: Collection[str] = (),
) -> Evidence:
    """Look for keywords in a task; `capabilities` gives the words that ask for each capability.

    With a project folder, `ambiguous` words do not speak for specialists who do not work on projects ("summarise"),
    unless the task names an address.
    """
    text = prompt[:_LOOKED_AT]
    words = _Words(text)
    has_address = _ADDRESS.search(text) is not None
    skipped = frozenset(ambiguous) if project and not has_address else frozenset[str]()
    found = {each.specialist_id: words.find(each.keywords) for each in specialists}
    asked = {name: words.find(keywords) for name, keywords in capabilities.items()}
    counted = {
        each.specialist_id: found[each.specialist_id]
        if each.works_on_projects
        else {word: place for word, place in found[each.specialist_id].items() if word not in skipped}
        for each in specialists
    }
    return Evidence(
        specialists=specialists,
        matched={who: tuple(keywords) for who, keywords in counted.items() if keywords},
        mentions={who: min(keywords.values()) for who, keywords in counted.items() if keywords},
        asked_by={
            name: kept for name, all_of in asked.items() if (kept := tuple(w for w in all_of if w not in skipped))
        },
        code_like=_CODE_LIKE.search(text) is not None,
        names_files=_NAMES_FILES.search(text) is not None,
        has_address=has_address,
        project=project,
        ignored=tuple(
            dict.fromkeys(word for who, words in found.items() for word in words if word not in counted[who])
        ),
        signs={kind: [each for each in signs if each.said not in skipped] for kind, signs in signs_of(text).items()},
    )


def the_only_one(evidence: Evidence) -> Recruitment | None:
    """Return the one specialist that there is, beside the assistant; None: there are more."""
    able = [each.specialist_id for each in evidence.specialists if each.specialist_id != ASSISTANT]
    if len(able or evidence.specialists) != 1:
        return None
    return _choice(evidence, able or (ASSISTANT,), RoutingMethod.FALLBACK, ("there is only one pack",))


def by_score(evidence: Evidence) -> Recruitment | None:
    """Choose who leads clearly by keywords, everyday signs and the project folder.

    None: two specialists are too close. The assistant needs no lead: it does what no specialist leads in.
    """
    force = by_keywords(evidence)
    if force is not None and len(force.specialist_ids) > 1:
        return force
    scores = {who: score for who, score in _scores(evidence).items() if score > 0}
    if not scores:
        return _by_default(evidence)
    # The configuration's order decides between equals, the assistant being last of all.
    best, *others = sorted(scores, key=lambda who: (-scores[who], who == ASSISTANT))
    if scores[best] == scores.get(ASSISTANT) and not (evidence.project and best == preferred_for_project(evidence)):
        best = ASSISTANT
    rivals = [scores[who] for who in others if who not in (best, ASSISTANT)]
    if best != ASSISTANT and rivals and scores[best] - max(rivals) < CLEAR_LEAD:
        return None
    said = _said_for(best, evidence)
    why = f"the task says {_quote_words(said)}" if said else "nothing in the task clearly is for another specialist"
    if evidence.project and best == preferred_for_project(evidence):
        return _choice(evidence, (best,), RoutingMethod.PROJECT, (f"it works on the project folder, and {why}",))
    same = force is not None and force.specialist_ids == (best,)
    return _choice(evidence, (best,), RoutingMethod.KEYWORDS if same else RoutingMethod.SCORE, (why,))


def _by_default(evidence: Evidence) -> Recruitment | None:
    """Choose the assistant for a task in which nothing speaks for anyone; None: there is none."""
    if _find(evidence, ASSISTANT) is None:
        return None
    return _choice(evidence, (ASSISTANT,), RoutingMethod.FALLBACK, ("nothing in the task asks for a specialist",))


def _scores(evidence: Evidence) -> dict[SpecialistId, int]:
    known = {_who_does(kind, evidence) for kind in Kind}
    scores = {
        who: sum(map(_weight, evidence.matched.get(who, ()))) * (1 if who in known else 2)
        for who in (each.specialist_id for each in evidence.specialists)
    }
    for kind, signs in evidence.signs.items():
        who_does = _who_does(kind, evidence)
        if who_does is not None:
            scores[who_does] += sum(sign.weight for sign in signs)
    home = preferred_for_project(evidence)
    if home is not None:
        scores[home] += _PROJECT_WEIGHT
    return scores


def _weight(keyword: str) -> int:
    return _ORDINARY_WEIGHT if keyword in _ORDINARY else _KEYWORD_WEIGHT * len(keyword.split())


def _who_does(kind: Kind, evidence: Evidence) -> SpecialistId | None:
    """Return whose work a kind is, if there is such a specialist."""
    match kind:
        case Kind.FILES:
            return preferred_for_project(evidence) or _find(evidence, _FOR_CODE)
        case Kind.TALK:
            return _find(evidence, ASSISTANT)
        case Kind.WEB:
            return _find(evidence, _FOR_SOURCES)


def _said_for(who: SpecialistId, evidence: Evidence) -> list[str]:
    """Return what in the task speaks for a candidate, the heaviest first."""
    weights = {keyword: _weight(keyword) for keyword in evidence.matched.get(who, ())}
    for kind, signs in evidence.signs.items():
        if _who_does(kind, evidence) == who:
            for sign in signs:
                weights.setdefault(sign.said, sign.weight)
    return sorted(weights, key=lambda said: -weights[said])[:_NAMED_WORDS]


def _quote_words(said: Sequence[str]) -> str:
    *most, last = (f'"{each}"' for each in said)
    return f"{', '.join(most)} and {last}" if most else last


def preferred_for_project(evidence: Evidence) -> SpecialistId | None:
    """Return the first choice for the project folder of a task; None without a folder, or when no pack works on one."""
    able = [each.specialist_id for each in evidence.specialists if each.works_on_projects and evidence.project]
    return max(able, key=lambda who: (evidence.score(who), who == _FOR_CODE), default=None)


def by_keywords(evidence: Evidence) -> Recruitment | None:
    """Choose from keywords alone; None when they are not clear."""
    ranked = _rank(evidence)
    if not ranked:
        code = _find(evidence, _FOR_CODE) if evidence.code_like else None
        return None if code is None else _choice(evidence, (code,), RoutingMethod.KEYWORDS, ("the task shows code",))
    best, *others = ranked
    if not others or evidence.score(best) >= CLEAR_RATIO * evidence.score(others[0]):
        return _choice(evidence, (best,), RoutingMethod.KEYWORDS, ("one specialist is clearly meant",))
    force = _cover(evidence)
    if len(force) > 1 and all(evidence.score(each) >= ENOUGH_FOR_FORCE for each in force):
        return _choice(
            evidence, force, RoutingMethod.KEYWORDS, ("no one specialist has all the capabilities asked for",)
        )
    return None


def by_model(evidence: Evidence, answer: Iterable[str]) -> Recruitment | None:
    """Take a routing model's answer; None when it names no candidate."""
    known = {each.specialist_id for each in evidence.specialists}
    chosen = tuple(dict.fromkeys(SpecialistId(name) for name in answer if name in known))[:MAX_SPECIALISTS]
    why = "the words of the task are not clear, and the routing model chose"
    return _choice(evidence, chosen, RoutingMethod.MODEL, (why,)) if chosen else None


def by_conversation(evidence: Evidence, *, nodes: bool) -> Recruitment | None:
    """Choose for a turn of a session whose words are not clear; None: there is no candidate for that.

    Who looks after machines, where there are `nodes`, else the assistant.
    """
    for who, here in ((SYSADMIN, nodes), (ASSISTANT, True)):
        chosen = _find(evidence, who) if here else None
        if chosen is not None:
            why = "no words of the conversation clearly ask for a specialist"
            return _choice(evidence, (chosen,), RoutingMethod.FALLBACK, (why,))
    return None


def by_fallback(evidence: Evidence, why: str) -> Recruitment | None:
    """Choose when nothing else did; None without candidates.

    Who works on the project folder, else the assistant; without one the best keywords, else engineering for code, else
    research.
    """
    ranked = _rank(evidence)
    home = preferred_for_project(evidence)
    preferred = _find(evidence, _FOR_CODE if evidence.code_like else _FOR_SOURCES)
    if home is not None:
        chosen, rule = home, f"{home} works on the project folder"
    elif _find(evidence, ASSISTANT) is not None:
        chosen, rule = ASSISTANT, f"{ASSISTANT} does what is not clearly for a specialist"
    elif ranked:
        chosen, rule = ranked[0], f"no other specialist has more words than {ranked[0]}"
    elif preferred is not None:
        chosen, rule = preferred, f"{preferred} is the default for {'code' if evidence.code_like else 'other tasks'}"
    elif evidence.specialists:
        chosen = evidence.specialists[0].specialist_id
        rule = f"{chosen} is the first pack of the configuration"
    else:
        return None
    return _choice(evidence, (chosen,), RoutingMethod.FALLBACK, (f"{why}, and {rule}",))


def _choice(
    evidence: Evidence, chosen: Sequence[SpecialistId], method: RoutingMethod, reasons: Sequence[str]
) -> Recruitment:
    return Recruitment(
        specialist_ids=tuple(chosen),
        required_capabilities=evidence.required_capabilities,
        method=method,
        reasons=(*reasons, *_words_found(evidence), *_unmet(evidence, chosen)),
    )


def _words_found(evidence: Evidence) -> tuple[str, ...]:
    found = [f"{who}: {evidence.score(who)} ({', '.join(keywords)})" for who, keywords in evidence.matched.items()]
    if evidence.ignored:
        found.append(f"not counted with a project folder: {', '.join(evidence.ignored)}")
    return tuple(found) if found or evidence.asked_by else ("no keyword was found",)


def _unmet(evidence: Evidence, chosen: Collection[SpecialistId]) -> tuple[str, ...]:
    """Say why no candidate was chosen that has a capability that words of the task ask for."""
    able = {name for each in evidence.specialists if each.specialist_id in chosen for name in each.capabilities}
    known = {name for each in evidence.specialists for name in each.capabilities}
    return tuple(
        f"too little asks for {name} to send another specialist: {', '.join(words)}"
        if name in known
        else f"no specialist has {name}, which is asked for by: {', '.join(words)}"
        for name, words in evidence.asked_by.items()
        if name not in able
    )


def _rank(evidence: Evidence) -> list[SpecialistId]:
    """Return those with any keyword, best first; the configuration's order decides between equals."""
    return sorted(evidence.matched, key=evidence.score, reverse=True)


def _cover(evidence: Evidence) -> tuple[SpecialistId, ...]:
    """Return a small set of specialists that has all required capabilities, greedily; in the order of their mention."""
    missing = set(evidence.required_capabilities)
    chosen: list[SpecialistId] = []
    while missing and len(chosen) < MAX_SPECIALISTS:
        best = max(
            evidence.specialists,
            key=lambda each: (len(missing & set(each.capabilities)), evidence.score(each.specialist_id)),
        )
        gained = missing & set(best.capabilities)
        if not gained:
            break  # no candidate can do the rest
        missing -= gained
        chosen.append(best.specialist_id)
    return tuple(sorted(chosen, key=lambda who: evidence.mentions.get(who, _LOOKED_AT)))


def _find(evidence: Evidence, specialist_id: SpecialistId) -> SpecialistId | None:
    return next((each.specialist_id for each in evidence.specialists if each.specialist_id == specialist_id), None)


class _Words:
    """A text made ready to be searched for keywords, whatever their case and ending."""

    def __init__(self, text: str) -> None:
        words = _words(text)
        self._text = " ".join(["", *words, ""])
        self._places: dict[str, int] = {}
        place = 0
        for word in words:
            self._places.setdefault(word, place)
            place += len(word) + 1

    def find(self, keywords: Iterable[str]) -> dict[str, int]:
        """Return the keywords that the text contains as whole words, with the place of each; every spelling once."""
        found: dict[str, int] = {}
        for keyword in dict.fromkeys(" ".join(_words(keyword)) for keyword in keywords):
            place = self._place(keyword)
            if place >= 0:
                found[keyword] = place
        return found

    def _place(self, keyword: str) -> int:
        if not keyword:
            return -1
        if _has_unspaced(keyword):
            return self._text.find(keyword)
        if " " in keyword:
            places = [self._text.find(f" {keyword}{ending} ") for ending in _ENDINGS]
        else:
            places = [self._places.get(keyword + ending, -1) for ending in _ENDINGS]
        return min((place for place in places if place >= 0), default=-1)


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _has_unspaced(keyword: str) -> bool:
    return not keyword.isascii() and any(first <= letter <= last for letter in keyword for first, last in _UNSPACED)
