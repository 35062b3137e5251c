"""Secrets by name: where they are meant, and how their values are kept out of the log.

A workflow names a secret as `${secret:NAME}`. That text is what is judged, agreed to and recorded; the value takes its
place when the call is made, and is taken out again of all that comes of it.
"""

import json
import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar, cast

HIDDEN = "[secret]"
SHORTEST = 6
"""Shorter values of the configuration are no secrets: hiding them would spoil every other text."""
REDACTED: Final = "[redacted]"
"""Stands where a secret stood."""
SHORTEST_NAMED: Final = 4
"""Shorter values that are used by name could not be hidden, so they are not used."""
SECRET: Final = re.compile(r"\$\{secret:([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})\}")
"""Stands for the value of a secret."""

_LONG_LINE: Final = 8
"""Of a secret of several lines, each one that is at least so long is a secret, too."""
_LIVE: Final = re.compile(r"\{secret:")
_BACKSLASHES: Final = re.compile(r"\\+")
_GAP: Final = re.compile(r"\s")
_PLAIN: Final = re.compile(r"[A-Za-z0-9]+")
_SHORTEST_WRAPPED: Final = 60
"""Programs break encoded data into lines of 60 (`xxd -p`), 64 (openssl) or 76 characters (`base64`)."""
_BREAK: Final = re.compile(r"\r?\n|(?:\\+r)?\\+n")
_WRAPPED: Final = re.compile(
    rf"(?<![\w+/-])(?:[A-Za-z0-9+/_-]{{{_SHORTEST_WRAPPED},}}+(?:{_BREAK.pattern}))++[A-Za-z0-9+/_=-]*+"
)

T = TypeVar("T")


def secrets_in(value: Any) -> frozenset[str]:
    """Return the names of all secrets that a value refers to, at any depth."""
    match value:
        case str():
            return frozenset(SECRET.findall(value)) if "${secret:" in value else frozenset()
        case Mapping():
            return frozenset().union(*(secrets_in(part) for pair in value.items() for part in pair))
        case list() | tuple():
            return frozenset().union(*map(secrets_in, value))
        case _:
            return frozenset()


def fill(value: Any, values: Mapping[str, str]) -> Any:
    """Return a value with these secrets in place of their names, at any depth."""
    return _each_text(value, lambda text: SECRET.sub(lambda found: values.get(found[1], found[0]), text))


def defuse(value: Any) -> Any:
    """Return what came from outside so that it names no secret, at any depth.

    Else a page that holds `${secret:TOKEN}` could have the token sent wherever a later step sends the page's text.
    """
    return _each_text(value, lambda text: _LIVE.sub("{secret :", text))


def defused_but(value: Any, names: frozenset[str]) -> Any:
    """Return a value so that it names no other secrets than these, at any depth."""

    def change(found: re.Match[str]) -> str:
        return found[0] if found[1] in names else f"${{secret :{found[1]}}}"

    return _each_text(value, lambda text: SECRET.sub(change, text))


def _each_text(value: Any, change: Any) -> Any:
    match value:
        case str():
            return change(value) if "{secret:" in value else value
        case Mapping():
            return {_each_text(key, change): _each_text(item, change) for key, item in value.items()}
        case list() | tuple():
            return [_each_text(item, change) for item in value]
        case _:
            return value


class _Spelling(NamedTuple):
    """One way in which a value may stand in a text."""

    pattern: str
    sign: str
    """What is in every text that it matches: looking for it costs next to nothing."""
    length: int
    """Of the value, or the part of it."""
    shown: str
    """What is shown instead."""
    is_escaped: bool = False
    """It matters only where something is escaped."""


class KnownSecrets:
    """Replaces known values wherever they stand in an event, at any depth. It can learn more of them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._spellings: list[_Spelling] = []
        self._numbers: dict[int, str] = {}
        self._learned: set[tuple[str, str]] = set()
        for value in values:
            if len(value) >= SHORTEST:
                self._spellings += _exactly(_forms(value), len(value), HIDDEN)
        self._arrange()

    def __bool__(self) -> bool:
        """Tell whether there is anything to hide."""
        return bool(self._spellings)

    def learn(self, values: Mapping[str, str]) -> None:
        """Hide these from now on, each in whichever way it may be spelled; what is shown instead is its name."""
        new = {pair for pair in values.items() if len(pair[1]) >= SHORTEST_NAMED} - self._learned
        for name, value in new:
            shown = f"[secret {name}]"
            self._spellings += _spellings(value, shown)
            if value.isascii() and value.isdecimal() and len(value) <= 100:
                self._numbers[int(value)] = shown
        if new:
            self._learned |= new
            self._arrange()

    def hide(self, value: T) -> T:
        """Return the value without secrets; the very same one if there are none in it."""
        return cast("T", self._hide(value))

    def _arrange(self) -> None:
        # The longest first: one secret, or a line of it, may be the beginning of another.
        self._spellings.sort(key=lambda each: (-each.length, -len(each.pattern), each.pattern))
        gaps = (each.length for each in self._spellings if _GAP.search(each.pattern))
        self.longest_with_gaps = 2 * max(gaps, default=0)
        """Characters of a text that may be a secret's beginning although there is a space behind them."""
        self._may_be_wrapped = any(len(each.sign) > _SHORTEST_WRAPPED for each in self._spellings)

    def _hide(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case Mapping():
                hidden = {self._hide(key): self._item(item) for key, item in value.items()}
                return hidden if hidden != value else value
            case tuple() | list() if not hasattr(value, "_fields"):
                items = [self._item(item) for item in value]
                return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
            case _ if is_dataclass(value) and not isinstance(value, type):
                return self._dataclass(value)
            case _:
                return value

    def _item(self, value: Any) -> Any:
        """Hide what stands in data, where a secret of digits may have become a number."""
        if self._numbers and type(value) is int:
            return self._numbers.get(value, value)
        return self._hide(value)

    def _text(self, text: str) -> str:
        line = self._line(text)
        if not self._may_be_wrapped or _WRAPPED.search(line) is None:
            return line  # the very same one: it may be more than a text, such as the member of an enumeration
        return _WRAPPED.sub(self._hide_wrapped, line)

    def _hide_wrapped(self, found: re.Match[str]) -> str:
        joined = _BREAK.sub("", found[0])
        hidden = self._line(joined)
        return found[0] if hidden == joined else hidden

    def _line(self, text: str) -> str:
        escapes = "\\" in text or "%" in text or "&" in text
        looked_for = [each for each in self._spellings if each.sign in text and (escapes or not each.is_escaped)]
        if not looked_for:
            return text
        # In one go: what is shown instead of one secret may hold another.
        pattern = _any_of(tuple(each.pattern for each in looked_for))
        return pattern.sub(lambda found: looked_for[(found.lastindex or 1) - 1].shown, text)

    def _dataclass(self, value: Any) -> Any:
        changed = {}
        for each in fields(value):
            before = getattr(value, each.name)
            after = self._hide(before)
            if after is not before:
                changed[each.name] = after
        return replace(value, **changed) if changed else value


def _forms(secret: str) -> tuple[str, ...]:
    """Return how a value may stand in a text: as it is, or inside of JSON, as arguments of calls and results are."""
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


def _exactly(forms: Iterable[str], length: int, shown: str) -> list[_Spelling]:
    return [_Spelling(re.escape(form), form, length, shown) for form in set(forms)]


def _spellings(secret: str, shown: str) -> list[_Spelling]:
    """Return how programs and servers may spell a value that they were given, its long lines included."""
    found: list[_Spelling] = []
    for part in _parts(secret):
        data = part.encode(errors="surrogateescape" if _is_from_bytes(part) else "replace")
        forms = {
            *_forms(part),
            data.decode(errors="replace"),
            part.replace(" ", "+"),
            *(form for encoded in _in_base64(data) for form in (encoded, encoded.rstrip("="))),
            *(data.hex(), data.hex().upper()),
        }
        found += _exactly((form for form in forms if len(form) >= SHORTEST_NAMED), len(part), shown)
        found += _escapes(part, shown)
    return found


def _in_base64(data: bytes) -> Iterator[str]:
    """Return data in base64, alone and behind something else, as a password is behind a user's name."""
    for before in range(3):
        encoded = b2a_base64(bytes(before) + data, newline=False).decode()
        if before:
            # What the first and the last characters stand for is not only the value.
            encoded = encoded[before + 1 : (before + len(data)) * 8 // 6]
            if len(encoded) < _LONG_LINE:
                continue
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")


def _parts(secret: str) -> set[str]:
    lines = {line.strip() for line in secret.splitlines()} if "\n" in secret or "\r" in secret else set()
    return {secret, secret.strip(), *(line for line in lines if len(line) >= _LONG_LINE)}


def _escapes(part: str, shown: str) -> list[_Spelling]:
    """Return how a value may stand in addresses, in JSON inside of JSON and in HTML.

    Which characters are escaped there, and how often, differs between programs.
    """
    characters = list(_BACKSLASHES.sub(r"\\", part))
    if len(characters) < SHORTEST_NAMED or part.isalnum():
        return []
    first, *rest = characters
    # Backslashes are taken all or not at all, and from the first one on: else a text full of them would take for ever.
    before = r"(?<!\\)" if first == "\\" else ""
    followed = "".join(_however_escaped(each, r"\\*+") for each in rest)
    sign = max(_PLAIN.findall(part), key=len, default="")
    return [_Spelling(before + _however_escaped(first, "") + followed, sign, len(part), shown, is_escaped=True)]


@lru_cache(maxsize=64)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"({pattern})" for pattern in patterns))


def _however_escaped(character: str, backslashes: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    if character == "\\":
        return r"(?:\\++|(?i:%5C))"
    data = character.encode(errors="surrogatepass")
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    forms = [
        re.escape(character),
        "".join(f"%{byte:02x}" for byte in data),
        r"\\*+".join(f"u{units[at : at + 4]}" for at in range(0, len(units), 4)),
        *(f"x{byte:02x}" for byte in data[:1] if len(data) == 1),
        *_LETTERS.get(character, ()),
    ]
    return f"{backslashes}(?i:{'|'.join(forms)})"


_LETTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "\n": ("n",),
    "\r": ("r",),
    "\t": ("t",),
    " ": (r"\+",),
    "&": ("&amp;",),
    "<": ("&lt;",),
    ">": ("&gt;",),
    '"': ("&quot;", "&#34;", "&#x22;"),
    "'": ("&#39;", "&#x27;", "&apos;"),
}
"""Further ways to write some characters."""


def _is_from_bytes(text: str) -> bool:
    """Tell whether a text stands for bytes that are no text, as variables of the environment may."""
    try:
        text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
