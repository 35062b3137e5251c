"""Which files a task says shall be made, changed or deleted, by name: pure. It errs towards none."""

import re
from collections.abc import Iterator, Sequence
from posixpath import normpath

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
