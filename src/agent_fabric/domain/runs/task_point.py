"""Whether what a run was kept from doing is what its task is about, and whether an answer tells of it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.runs.effects import Effects, NotedCall
from agent_fabric.domain.tools.specs import SEARCH_ENGINE

_WORD: Final = re.compile(r"[^\W\d_]\w*")
_FILE: Final = re.compile(r"[\w.@+-]*\.[A-Za-z]\w{0,7}\b|[\w.@+-]+/[\w./@+-]+")
_HOST: Final = re.compile(r"https?://([\w.-]+)", re.IGNORECASE)
_GENERIC: Final = names("python python3 bash sh node deno npx uv run exec sudo env npm pnpm yarn time timeout")
"""Words of a command that tell nothing about what it is for."""
_ON_FILES: Final = names(
    "rm rmdir mv cp ln touch mkdir chmod chown tee truncate sed awk cat echo printf tar unzip zip find patch ed"
)
"""Programs whose work shows in files: what has changed tells more than how one attempt ended."""
_MIN_WORD: Final = 3


def is_point_refused(prompt: str, effects: Effects) -> bool:
    """Tell whether a denied or failed call was the point of a task: the only one that goes outside, or named in it."""
    refused = (*effects.denied, *effects.failed)
    acted = [call for call in effects.left if call.to != SEARCH_ENGINE]
    if any(call.to for call in refused) and not acted:
        return True
    denied = frozenset(call.seq for call in effects.denied)
    return any(_is_named(prompt, call, broadly=bool(call.to) or call.seq in denied) for call in refused)


def _is_named(prompt: str, call: NotedCall, *, broadly: bool) -> bool:
    """Tell whether a task names a call; of one in the box that failed, the names of files are not enough."""
    said = prompt.casefold()
    words = _WORD.findall(said)
    verb, *others = (*keywords_of(call), "")
    if not broadly and verb in _ON_FILES:
        return False
    if any(word.startswith(verb) for word in words) and len(verb) >= _MIN_WORD:
        return True
    return any(other and other in said for other in others)


def keywords_of(call: NotedCall) -> Sequence[str]:
    """Return the words that name a call, small: what it does first, then the files and hosts that it names."""
    what = call.what.casefold()
    if what.startswith("step '"):
        what = what.partition("': ")[2] or what
    found = list(_words_of(call, what))
    hosts = _HOST.findall(what)
    files = [match[0].rpartition("/")[2] or match[0] for match in _FILE.finditer(_HOST.sub(" ", what))]
    return [*found, *hosts, *(file for file in files if len(file) >= _MIN_WORD)]


def _words_of(call: NotedCall, what: str) -> Iterator[str]:
    if call.tool.startswith("mcp__"):
        yield from _parts(call.tool.rpartition("__")[2])
        return
    node, colon, command = what.partition(": ")
    plain = command if colon and " " not in node else what
    words = [word for word in plain.split() if not word.startswith("-") and word.rpartition("/")[2] not in _GENERIC]
    if not words:
        yield from _parts(call.tool)
        return
    program = words[0].rpartition("/")[2].partition(".")[0]
    second = words[1] if len(words) > 1 and words[1].isalpha() else ""
    if program in _ON_FILES:
        yield program
        yield from (word.strip("'\"") for word in words[1:] if len(word) >= _MIN_WORD)
    else:
        yield second or next(iter(_parts(program)), program)


def _parts(name: str) -> Sequence[str]:
    return [part for part in re.split(r"[-_.]+", name.casefold()) if len(part) >= _MIN_WORD]


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_SENTENCE: Final = re.compile(r"[^.!?\n;]+(?:[.!?](?=\S)[^.!?\n;]*)*")
_TOLD: Final = re.compile(
    r"\b(?:den(?:ied|y)|refus\w*|reject\w*|declin\w*|fail\w*|block\w*|not\s+(?:allowed|done|made|run|sent|able|pushed|"
    r"deployed|succe\w*|complet\w*|happen\w*|go\s+through)|could\s?n.t|could\s+not|cannot|can.t|was\s?n.t|was\s+not|did\s?n.t|did\s+not|"
    r"has\s?n.t|has\s+not|unable|instead|edited|error\w*|timed?\s+out|in\s+doubt|unclear|unknown|may\s+have|"
    r"abgelehnt|verweigert|fehlgeschlagen|nicht|konnte\s+nicht|gescheitert|"
    r"refusée?|rejetée?|échoué\w*|n.a\s+pas|impossible|"
    r"rechazad[oa]|denegad[oa]|falló|no\s+se|no\s+pud[eo]|"
    r"rifiutat[oa]|negat[oa]|fallit[oa]|non\s+(?:è|ho|riuscit\w*))\b",
    re.IGNORECASE,
)
_DENIED_DENIAL: Final = re.compile(
    r"\b(?:nothing|none|no\s+(?:one|errors?|failures?|problems?)|without|never|nichts|rien|nada|niente)\b",
    re.IGNORECASE,
)


def is_told(answer: str, call: NotedCall) -> bool:
    """Tell whether an answer says of a call that it came to nothing; in doubt it does not."""
    words = [word for word in keywords_of(call) if len(word) >= _MIN_WORD] or [call.tool.casefold()]
    for match in _SENTENCE.finditer(answer):
        sentence = match[0].casefold()
        named = any(word in sentence for word in words)
        if named and _TOLD.search(sentence) is not None and _DENIED_DENIAL.search(sentence) is None:
            return True
    return False
