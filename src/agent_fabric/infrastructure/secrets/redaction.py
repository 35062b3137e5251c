"""Takes secrets out of whatever is about to be written where operators read it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus

from agent_fabric.domain.secrets.references import REDACTED
from agent_fabric.domain.secrets.shapes import PRIVATE_KEY, TOKEN

SHORTEST_SECRET: Final = 4
"""Known values shorter than this are no secrets: hiding them would hide half of every line."""
MAX_CHARS: Final = 8_000
"""Of one text; what is longer is cut."""
_MAX_READ: Final = 16_000
_SHORT: Final = 64
"""Most texts are not longer, and come again: the same names, paths and ids in line after line."""
_MARGIN: Final = 4_096
"""Behind what is kept, so that a secret that the cut would halve is seen whole."""
_MAX_ITEMS: Final = 100
_MAX_DEPTH: Final = 12

_NAME: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|credentials?|authorization|cookie|signature|"
    r"(?:api|access|private|secret|signing|encryption)[_-]?key"
)
_SECRET_NAME: Final = re.compile(rf"(?i:{_NAME})$")
_QUOTED: Final = r"""\\*"(?:[^"\\]|\\.)*"?|\\*'(?:[^'\\]|\\.)*'?"""
_SEPARATOR: Final = r"""\\*["']?(?:\s*[=:]\s*|\s*,\s*(?=b?["']))(?:b(?=["']))?"""


class _Pattern(NamedTuple):
    """What a secret looks like. The group, or else the whole match, is hidden."""

    signs: tuple[str, ...]
    """Small letters of which at least one is there, in a text where the expression could match: it costs much more."""
    expression: re.Pattern[str]


_PATTERNS: Final = (
    *(_Pattern(tuple(map(str.lower, shape.signs)), shape.expression) for shape in (PRIVATE_KEY, TOKEN)),
    _Pattern(
        (
            "sk-",
            "gh",
            "github_pat_",
            "glpat-",
            "xox",
            "xapp-",
            "akia",
            "asia",
            "aroa",
            "aida",
            "aiza",
            "hf_",
            "eyj",
            "a33_",
            "local_",
        ),
        re.compile(
            r"(?<![A-Za-z0-9])(?:"
            r"sk-[A-Za-z0-9_-]{8,}"  # OpenAI, Anthropic and those who follow them
            r"|gh[oprsu]_[A-Za-z0-9]{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}"
            r"|xox[a-z]-[A-Za-z0-9-]{6,}|xapp-[A-Za-z0-9-]{6,}"  # Slack
            r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"  # AWS
            r"|AIza[\w-]{20,}|hf_[A-Za-z0-9]{16,}"
            r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"  # JSON Web Tokens
            r"|a33_[0-9a-f]{12}_[\w-]{8,}|local_[\w-]{43}"  # ours
            r")"
        ),
    ),
    _Pattern(
        ("authorization", "cookie"),
        re.compile(rf"(?i:authorization|cookie){_SEPARATOR}({_QUOTED}|[^\r\n\"']+)"),
    ),
    _Pattern(
        ("passw", "passphrase", "pwd", "secret", "token", "credential", "signature", "key"),
        re.compile(rf"(?i:{_NAME}){_SEPARATOR}({_QUOTED}|[^\s&\"']+)"),
    ),
    _Pattern(("bearer",), re.compile(r"(?i:\bbearer)\s+([^\s\"',;]{4,})")),
    _Pattern(("basic",), re.compile(r"\b[Bb]asic\s+((?=[a-z]*[A-Z0-9+/])[A-Za-z0-9+/]{6,}={0,2})")),
    _Pattern(("?", "&"), re.compile(r"[?&](?i:key|sig|code|auth|sid|session(?:_?id)?)=([^&\s\"'#]+)")),
    _Pattern(("://",), re.compile(r"://([^\s/?#]+)@")),
)


class Redactor:
    """Replaces secrets: values that are known, and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._known: tuple[str, ...] = ()
        # Most names are written in the code and come again in every line.
        self._name = lru_cache(maxsize=1_000)(lambda name: (self.text(name), names_secret(name)))
        self._short = lru_cache(maxsize=1_000)(self._without_secrets)
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Replace these values, too, from now on."""
        new = frozenset(secrets) - self._values
        if not new:
            return
        self._values |= new
        spelled = {spelling for secret in new for spelling in _spellings(secret.strip())}
        self._known += tuple(spelling for spelling in spelled if len(spelling) >= SHORTEST_SECRET)
        self._name.cache_clear()
        self._short.cache_clear()

    def text(self, text: str) -> str:
        """Return a text without secrets, cut if it is very long."""
        return self._short(text) if len(text) <= _SHORT else self._without_secrets(text)

    def _without_secrets(self, text: str) -> str:
        head = text[:_MAX_READ]
        # All are looked for in the text as it came: secrets may overlap, and no half of one may be left.
        found = sorted(self._spans(head))
        if not found:
            return head if len(head) <= MAX_CHARS else f"{head[:MAX_CHARS]}…"
        parts: list[str] = []
        end = 0
        for first, last in found:
            if first > end or not parts:
                parts += [head[end:first], REDACTED]
            end = max(end, last)
        clean = "".join(parts) + head[end:]
        kept = min(MAX_CHARS, len(clean) - _MARGIN) if len(text) > _MAX_READ else MAX_CHARS
        return clean if len(clean) <= kept else f"{clean[: max(kept, 0)]}…"

    def value(self, value: object, *, depth: int = 0) -> Any:
        """Return a value as plain data without secrets, at any depth."""
        match value:
            case None | bool():
                return value
            case str():
                return self.text(str.__str__(value))
            case int() | float():
                shown = repr(value)
                if self._known and any(known in shown for known in self._known):
                    return REDACTED
                return value if shown[-1].isdigit() else shown  # JSON knows no infinity
            case bytes() | bytearray():
                return self.text(value[: 4 * _MAX_READ].decode("utf-8", "backslashreplace"))
            case _ if depth >= _MAX_DEPTH:
                return "…"
            case Mapping():
                return self._mapping(value, depth)
            case list() | tuple() | set() | frozenset():
                return self._items(list(value), depth)
            case _:
                return self.text(_render(value))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for known in self._known:
            first = text.find(known)
            while first >= 0:
                yield first, first + len(known)
                first = text.find(known, first + 1)
        if len(text) < 16 and text.isalnum():
            return  # no pattern is so short and so plain
        lowered = text.lower()
        for signs, expression in _PATTERNS:
            for sign in signs:
                if sign in lowered:
                    yield from (match.span(expression.groups) for match in expression.finditer(text))
                    break

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for number, (key, item) in enumerate(value.items()):
            if number == _MAX_ITEMS:
                plain["…"] = f"{len(value) - number} more"
                break
            name, is_secret = self._name(key if isinstance(key, str) else _name(key))
            if is_secret and not (item is None or item == "" or isinstance(item, bool)):
                plain[name] = REDACTED
            elif type(item) is str:  # as most are
                plain[name] = self.text(item)
            else:
                plain[name] = self.value(item, depth=depth + 1)
        return plain

    def _items(self, value: list[Any], depth: int) -> list[Any]:
        if len(value) == 2 and isinstance(value[0], str | bytes) and names_secret(_name(value[0])):
            return [self.value(value[0]), REDACTED]  # one header of a list of headers
        plain = [self.value(item, depth=depth + 1) for item in value[:_MAX_ITEMS]]
        return plain if len(value) <= _MAX_ITEMS else [*plain, f"… {len(value) - _MAX_ITEMS} more"]


def names_secret(name: str) -> bool:
    """Tell whether a field, header or parameter of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def _spellings(secret: str) -> set[str]:
    """Return a secret as it may stand in addresses, JSON and representations of Python's objects."""
    return {
        secret,
        quote(secret, errors="replace"),
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        repr(f'"{secret}')[2:-1],  # beside a quotation mark, the other kind is escaped
    }


def _name(key: object) -> str:
    return key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else _render(key)


def _render(value: object) -> str:
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception as problem:  # noqa: BLE001 - anyone's __repr__; a log line must not fail because of it
        return f"<{type(value).__name__} that cannot be shown: {type(problem).__name__}>"
