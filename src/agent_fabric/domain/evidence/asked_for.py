"""What a task asks for, told by its words: a change, an answer, or neither is clear.

And which files it says shall be made, changed or deleted, by name. A signal, not a parser: its words are English. Where
it is unclear, nothing is concluded from it.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from posixpath import normpath

from agent_fabric.domain.policy.command_lines.names import names


class AskedFor(StrEnum):
    """What must come of a task."""

    CHANGE = "change"
    """Something must be different afterwards."""
    ANSWER = "answer"
    """Something must be said."""
    UNCLEAR = "unclear"


_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n+|(?:,|(?<![\s,]))\s+(?:and|then)\s+(?:then\s+|also\s+)?")
_POLITE = re.compile(
    r"\A(?:(?:please|now|then|also|next|finally|first|just|hi|hello|ok|so|and|but|"
    r"(?:can|could|would|will)\s+you|(?:i|we)(?:'d like| would like| want| need)\s+you\s+to|"
    r"(?:i|we)\s+(?:want|need)\s+to|let's|go\s+ahead\s+and|your\s+task\s+is\s+to|you\s+(?:should|must)),?\s+)+",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\A(?:in|inside|within|from|for|with|using|under|if|when|after|before)\s[^,]{1,80},\s+", re.IGNORECASE
)
"""What may stand before the verb: "In app.py, rename …"."""

_CHANGING = names(
    "adapt adjust append apply bump change clean comment commit configure convert copy correct delete disable "
    "downgrade drop edit enable extend fix handle implement inline insert install introduce merge migrate "
    "modernise modernize modify move overhaul patch polish port prepend refactor reformat remove rename reorder "
    "reorganise reorganize repair replace reset restore restructure revert rework rewrite simplify split strip "
    "support swap switch tidy tweak uncomment undo unify update upgrade wrap"
)
"""What leaves things different, whatever it is done to."""
_MAKING = names(
    "add build create decrease draft enhance extract format generalise generalize generate improve increase lower "
    "make optimise optimize produce put reduce resolve revise save set shorten solve sort store transform "
    "translate turn use write"
)
"""What makes a file or a part of one, or only an answer: that depends on what is made."""
_THING = re.compile(
    r"\b(?:files?|folders?|director(?:y|ies)|scripts?|programs?|functions?|class(?:es)?|modules?|tests?|methods?|"
    r"config(?:uration)?|readme|packages?|endpoints?|variables?|columns?|lines?|docstrings?|comments?|options?|flags?|"
    r"parameters?|arguments?|fields?|keys?|entr(?:y|ies)|dependenc(?:y|ies)|imports?|type\s+hints?|pages?|apps?|"
    r"websites?|games?|librar(?:y|ies)|makefile|dockerfile)\b|(?<![\w/-])[\w/-]+\.[a-z][a-z0-9]{0,5}\b",
    re.IGNORECASE,
)
_NO_CHANGE = re.compile(
    r"(?:make\s+(?:sure|sense|a\s+(?:list|guess))|add\s+up|add\s+[\d(]|update\s+(?:me|us)|change\s+nothing)\b",
    re.IGNORECASE,
)
_IF_SO = re.compile(r"\s*(?:and\s+)?if\s+(?:so|yes|not|any|needed|necessary|possible),?\s", re.IGNORECASE)
"""It depends on what comes out before whether anything is to be changed."""
_IF_ANY = re.compile(
    r"\w+\s+(?:what|whatever|any|anything|everything)\b|[^,]*\bif\s+(?:needed|necessary|any|there|you|it|something)\b",
    re.IGNORECASE,
)
"""A change that may turn out not to be needed."""
_ANSWERING = names(
    "analyse analyze answer calculate check compare compute count describe determine display echo estimate evaluate "
    "explain figure find give identify inspect investigate list look measure name output print read recommend report "
    "review run say search show suggest sum summarise summarize tell test verify"
)
_QUESTION = re.compile(
    r"(?:how|what|what's|which|who|whom|whose|why|where|when|is|are|was|were|does|did|has|should|am|may|might)\b"
    r"|(?:do|have)\b.*\?",
    re.IGNORECASE,
)


def asked_for(prompt: str) -> AskedFor:
    """Say whether a task wants something changed, as far as its words tell."""
    found = AskedFor.UNCLEAR
    for sentence in _SENTENCE.split(prompt[:20_000]):
        wanted = _wanted_by(sentence)
        if wanted is AskedFor.CHANGE:
            return wanted
        found = wanted if wanted is AskedFor.ANSWER else found
    return found


_ABOUT_RUNNING = re.compile(
    r"\b(?:runs?|running|execut\w*|tests?|testing|build\w*|compil\w*|lint\w*|start|works?|working|pass(?:es)?|check\w*|verif\w*|prüf\w*|"
    r"teste\w*|lauf\w*|läuft)\b",
    re.IGNORECASE,
)
_SAYS_UNCHANGED = re.compile(
    r"\b(?:no|nothing|not|none|never|without)\b|n't\b|\b(?:unchanged|already|nichts|keine?|nicht|bereits|rien|aucune?|nada)\b",
    re.IGNORECASE,
)


def nothing_to_show(prompt: str, summary: str) -> bool:
    """Tell whether what ran in an unchanged workspace bears nothing out.

    So it is unless the task asks for an answer, or is about running something, or the result says that it left all as
    it was.
    """
    told = asked_for(prompt) is AskedFor.ANSWER or _ABOUT_RUNNING.search(prompt[:20_000])
    return not told and not _SAYS_UNCHANGED.search(summary)


def _wanted_by(sentence: str) -> AskedFor:
    if _IF_SO.match(sentence):
        return AskedFor.UNCLEAR
    text = _ASIDE.sub("", _POLITE.sub("", sentence.strip(" \t-*•\"'`"), count=1), count=1)
    text = _POLITE.sub("", text, count=1) if _POLITE.match(text) else text
    if _QUESTION.match(text):
        return AskedFor.ANSWER
    verb = re.match(r"([A-Za-z]+)\s+\S", text)
    word = verb[1].casefold() if verb is not None else ""
    if word in _CHANGING | _MAKING:
        surely = word in _CHANGING or _THING.search(text)
        return (
            AskedFor.CHANGE if surely and not _NO_CHANGE.match(text) and not _IF_ANY.match(text) else AskedFor.UNCLEAR
        )
    return AskedFor.ANSWER if word in _ANSWERING else AskedFor.UNCLEAR


_PATH = r"[`'\"]?(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,7}\b[`'\"]?"
_LIST = rf"(?P<paths>{_PATH}(?:,?\s+(?:and\s+)?{_PATH})*)"
_WORDS = r"(?:(?:the|a|an|new|empty|files?|called|named|both)\s+)*"
_WITHIN = r"(?:(?![.!?](?:\s|$)).)*?"
"""Up to somewhere in the same sentence."""
_DONE_TO = re.compile(
    rf"\b(?:create|write|delete|remove|rename|move|update|edit|fix|correct)\s+{_WORDS}{_LIST}", re.IGNORECASE
)
_PUT_INTO = re.compile(
    rf"\b(?:write|save|put|store|copy|rename|move|convert|collect|gather|join|export|append|add|extract|insert)\b{_WITHIN}"
    rf"\s(?:to|into|as|(?:top|end|beginning|start)\s+of)\s+{_WORDS}{_LIST}",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_MAYBE = re.compile(
    r"\b(?:if|unless|whether|why|how|not|never|n't|without|instead|example|like|such|e\.g|could|would|might|explain)\b",
    re.IGNORECASE,
)
"""A sentence with one of these may mean something else."""
_ONLY = re.compile(
    rf"\b(?:only|just)\s+(?:(?:the|its|their)\s+)?(?P<what>number|count|total|sum|path|version|name)\b{_WITHIN}"
    rf"\s(?:to|into|in)\s+{_WORDS}(?P<file>{_PATH})",
    re.IGNORECASE,
)
_FORMS = {"path": re.compile(r"\s*[\w.@+/-]+\s*")}
_SETTINGS = frozenset({"version", "name"})
_SETTING = re.compile(
    r"\s*[\"']?(?P<what>[a-z]+)[\"']?\s*[=:]\s*[\"']?(?P<value>[^\"'\n,;]{1,80}?)[\"']?\s*[,;]?\s*", re.IGNORECASE
)
"""A line of settings; a task that asks for just its value does not want the line."""
_NUMBERS = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
_ONE_NUMBER = re.compile(r"\s*[-+$€]?\s*\d[\d.,]*\s*[%€]?\s*")
_EMPTY = re.compile(
    r"\bempty (?:[\w.-]+ )?files?\b"
    r"(?P<names>(?:(?!\b(?:with|then|that|which|containing|holding|an?|another|the)\s)[^\n;:]){1,100})",
    re.IGNORECASE,
)
"""Names of files that are to be empty; another one, with something in it, may follow."""
_MAX_CHARS = 2_000


def paths_in(text: str) -> Iterator[str]:
    """Yield whatever looks like the name of a file in a text."""
    for match in re.finditer(_PATH, text[:_MAX_CHARS]):
        yield normpath(match[0].strip("`'\"").rstrip("."))


def files_to_change(prompt: str) -> Sequence[str]:
    """Return the files that a task names as those to be made, changed or deleted; only where it leaves no doubt."""
    found = (path for each in _SENTENCE_END.split(prompt[:_MAX_CHARS]) if not _MAYBE.search(each) for path in _in(each))
    return tuple(dict.fromkeys(found))


def _in(sentence: str) -> Iterator[str]:
    for pattern in (_DONE_TO, _PUT_INTO):
        for match in pattern.finditer(sentence):
            yield from (normpath(path.strip("`'\"").rstrip(".")) for path in re.findall(_PATH, match["paths"]))


def not_as_asked(prompt: str, file: str, content: str) -> str:
    """Say which form a task wants the content of a file to have, if it has another one; empty: none, or that."""
    for match in _ONLY.finditer(prompt[:_MAX_CHARS]):
        what = match["what"].casefold()
        if normpath(match["file"].strip("`'\"").rstrip(".")) == normpath(file):
            if what in _SETTINGS:
                return what if asked_part(what, content) else ""
            return "" if _FORMS.get(what, _ONE_NUMBER).fullmatch(content) else what
    return ""


def wants_empty(prompt: str, file: str) -> bool:
    """Tell whether a task asks for an empty file of this name."""
    named = (word.strip("`'\".,") for match in _EMPTY.finditer(prompt[:_MAX_CHARS]) for word in match["names"].split())
    return normpath(file) in {normpath(word) for word in named if word}


def asked_part(what: str, content: str) -> str:
    """Return the part of a file's content that a task wants alone; empty: it cannot be told for certain."""
    if what in _SETTINGS:
        setting = _SETTING.fullmatch(content[:_MAX_CHARS])
        return setting["value"].strip() if setting and setting["what"].casefold() == what else ""
    numbers = set(_NUMBERS.findall(content[:_MAX_CHARS])) if what != "path" else set()
    return numbers.pop() if len(numbers) == 1 else ""
