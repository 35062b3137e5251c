"""Texts that look like a secret, no matter whose: private keys, tokens, passwords in addresses.

They are hidden as configured secrets are: a model that never sees one cannot be talked into sending it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")


class Shape(NamedTuple):
    """One kind of secret."""

    name: str
    signs: tuple[str, ...]
    """One of these stands in every text that has such a secret: looking for them costs next to nothing."""
    expression: re.Pattern[str]


_MARK: Final = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_NUMBER: Final = r"[ \t]{0,16}(?:[0-9]{1,6}[ \t:|-]{1,8})?"
"""What file tools write in front of a line."""
PRIVATE_KEY: Final = Shape(
    "private key",
    # The beginnings of keys without their first line: OpenSSH, PKCS 1, PKCS 8 and SEC 1, whose lengths vary.
    ("PRIVATE KEY", "b3BlbnNzaC1rZXktdjE", "IBAAKC", "IBADAN", "AgEAMA", "CAQEEI", "CAQAwB", "BAQEFAAS"),
    re.compile(
        rf"-----BEGIN {_MARK}(?s:.*?)(?:-----END {_MARK}|\Z)"
        r"|(?<![A-Za-z0-9+/])(?:b3BlbnNzaC1rZXktdjE|MII[A-Z][A-Za-z0-9+/]{2}IBAAKC"
        r"|MI[A-Za-z0-9+/]{2,6}(?:IBADAN|AgEAMA)[A-Za-z0-9+/]{1,24}BAQEFAAS"
        r"|M[A-Z][A-Za-z0-9+/]{1,3}CAQEEI|M[A-Z][A-Za-z0-9+/]{1,3}CAQAwB[A-Za-z0-9+/]{4,12}(?:CIEI|BIGeMI|BG0wa|BHkwd))"
        r"(?:[A-Za-z0-9+/=]|\\*[nr]|[\r\n]){16,}"
    ),
)
_MIXED: Final = r"(?=[A-Za-z_-]{0,60}[0-9])(?=[0-9a-z_-]{0,60}[A-Z])(?=[0-9A-Z_-]{0,60}[a-z])"
"""Capital and small letters and digits: no name that a person gave."""
TOKEN: Final = Shape(
    "token",
    (
        *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-", "AKIA", "ASIA"),
        *("AIza", "hf_", "eyJ", "a33_", "local_", "npm_", "pypi-", "SG.", "_live_", "_test_", "_pat_", "_api_"),
        *("_v1_", "whsec_", "gsk_", "xai-", "nvapi-", "GOCSPX-", "ya29.", "hvs.", "AGE-SECRET-KEY-1", "ATATT3"),
        *("shpat_", "ntn_"),
    ),
    re.compile(
        r"(?<![A-Za-z0-9])(?:"
        r"sk-(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and others like them
        r"|gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
        r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"  # Slack
        r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
        r"|AIza[\w-]{30,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-AgE[\w-]{30,}"
        r"|(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"  # Stripe
        rf"|[a-z]{{2,12}}_(?:live|test|pat|api|v1)_{_MIXED}[A-Za-z0-9]{{20,}}|[a-z]{{3}}_v1_[0-9a-f]{{64}}"
        r"|SG\.[\w-]{16,64}\.[\w-]{30,}"  # SendGrid
        rf"|(?:whsec|gsk|ntn|xai|nvapi|GOCSPX)[_-]{_MIXED}[\w-]{{20,}}|shpat_[0-9a-fA-F]{{32}}"
        r"|ya29\.[\w-]{20,}|hvs\.[\w-]{24,}|AGE-SECRET-KEY-1[A-Z0-9]{50,}|ATATT3[\w=-]{50,}"
        r"|(?<![_-])eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,}"  # JSON Web Tokens
        r"|a33_[0-9a-f]{12}_[\w-]{8,}|local_[\w-]{43}"  # ours
        r")"
    ),
)
PASSWORD: Final = Shape(
    "password",
    ("://",),
    # What stands for a password, such as $NAME, {name}, <name> or ****, is none.
    re.compile(r"(?<=://)[^\s/@:\"'<>\\]{1,100}:[^\s/@:\"'<>\\$\[{*]{3,200}(?=@[\w.-])"),
)
SHAPES: Final = (PRIVATE_KEY, TOKEN, PASSWORD)
_SHORTEST: Final = 12
"""Shorter texts hold none of them."""
_PLACEHOLDERS: Final = tuple(f"[secret: {shape.name}]" for shape in SHAPES)
_KEY_LINES: Final = re.compile(
    rf"(?:{_NUMBER}(?=[0-9A-Z+/]*[a-z])(?=[0-9a-z+/]*[A-Z])(?=[A-Za-z+/]*[0-9])"
    rf"[A-Za-z0-9+/]{{64}}(?:[A-Za-z0-9+/]{{6}})?[ \t\r]*(?:\n|\Z))+"
    rf"(?:{_NUMBER}[A-Za-z0-9+/=]{{4,70}})?"
)
"""A whole text of lines as private keys have them (64 characters of base64, or 70), whose first line was not read."""
_KEY_PART: Final = re.compile(rf"{_NUMBER}[A-Za-z0-9+/=]{{4,128}}\s{{0,4}}")
"""A line of a private key whose first line was not read, or stands in another text."""
_KEY_END: Final = re.compile(rf"-----END {_MARK}")
_UNSEEN: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef"
)
_SEQUENCE: Final = r"(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\^_])?"
INVISIBLE: Final = re.compile(
    # All begin with one of a set of characters: whatever else a long text has is passed over quickly.
    rf"[{_UNSEEN}\\](?:(?<=\x1b){_SEQUENCE}|(?<=[{_UNSEEN}])"
    rf"|(?<=\\)\\{{0,3}}(?:(?:u001b|x1b|033|e(?=\[)){_SEQUENCE}"
    r"|u(?i:00(?:0[0-8]|ad)|034f|061c|180e|200[b-f]|202[a-e]|206[0-9]|fe0[0-9a-f]|feff)))"
)
"""What a terminal does not show, as it is or as JSON escapes it: sequences of control, characters without a width."""

MAX_SCANNED: Final = 16_000
"""Characters of a text that are looked at in one go, where others have to wait for it."""
_LETTERS: Final = "a-z\u00df-\u00f6\u00f8-\u024f\u03b1-\u03c9\u0430-\u045f"
_CJK: Final = "\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3"
_SEAM: Final = re.compile(
    rf"(?<=[{_LETTERS}][{_LETTERS},.;:])[ ](?=[A-Z{_LETTERS}])|(?<=[{_CJK}])(?=[{_CJK}])", re.UNICODE
)
"""Between two words of a sentence: no secret goes on there but a private key that has begun."""
_SIGNS_OF_CONTROL: Final = ("-----", "\x1b", "u001b", "\\x1b", "\\033", "\\e[")
_MAX_CONTROL: Final = 600
"""Characters that one of these may still mean something for."""
_KEY_BEGIN: Final = re.compile(rf"-----BEGIN {_MARK}")

_REST: Final = re.compile(rf"(\[secret: token\])(?:(?:{INVISIBLE.pattern})+[\w.-]+)+")


def hide_shapes(value: T) -> T:
    """Return a value in which nothing looks like a secret, at any depth; the very same one if nothing did."""
    if not value:  # most values: this is done several times for every call
        return value
    hide: Callable[[Any], Any] = _hide_pieces if value.__class__ is str else _Walk().hide
    hidden: T = hide(value)
    return hidden


def scannable_parts(text: str) -> Iterator[str]:
    """Give a long text in parts of which none has half a secret, each about as long as is looked at in one go.

    A text without sentences, or with a private key that does not end, is one part.
    """
    first = 0
    while len(text) - first > MAX_SCANNED:
        end = _end_of_part(text, first)
        yield text[first:end]
        first = end
    if first < len(text):
        yield text[first:]


def _end_of_part(text: str, first: int) -> int:
    end, looked_at = _seam(text, first + MAX_SCANNED), first
    while (begun := _KEY_BEGIN.search(text, looked_at, end)) is not None:
        closed = _KEY_END.search(text, begun.end())
        if closed is None:
            return len(text)
        looked_at = closed.end()
        if looked_at > end:
            end = _seam(text, looked_at)
    return end


def _seam(text: str, after: int) -> int:
    for seam in _SEAM.finditer(text, after):
        around = text[max(seam.end() - _MAX_CONTROL, 0) : seam.end() + 100]
        if not any(sign in around for sign in _SIGNS_OF_CONTROL):
            return seam.end()
    return len(text)


def placeholder_in(text: str) -> str:
    """Return what stands for a hidden secret in a text; empty: nothing does."""
    return next((each for each in _PLACEHOLDERS if each in text), "")


def without_invisible(text: str) -> str:
    """Return a text as a terminal shows it; the very same one if all of it is shown."""
    if text.isprintable() and text.isascii() and "\\" not in text:
        return text
    return INVISIBLE.sub("", text)


class _Walk:
    """Goes through a value. The lines of one key may be texts of their own."""

    def __init__(self) -> None:
        self._in_key = False

    def hide(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case dict() | Mapping():  # asking for a dict is quick
                hidden = {_hide_pieces(key) if isinstance(key, str) else key: self.hide(i) for key, i in value.items()}
                return hidden if hidden != value else value
            case list() | tuple() if not hasattr(value, "_fields"):
                items = [self.hide(item) for item in value]
                return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
            case _:
                return value

    def _text(self, text: str) -> str:
        if self._in_key:
            if "-----END" in text:
                self._in_key = False
                return _PLACEHOLDERS[0]
            if len(text) >= _SHORTEST and _KEY_PART.fullmatch(text):
                return _PLACEHOLDERS[0]
        hidden = _hide_pieces(text)
        if hidden is not text and "-----BEGIN" in text and "-----END" not in text:
            self._in_key = hidden.endswith(_PLACEHOLDERS[0])
        return hidden


def _hide_pieces(text: str) -> str:
    """Hide secrets, also where a terminal would put together what the text has in pieces."""
    if len(text) < _SHORTEST:
        return text
    hidden = _hide_in(text)
    shown = without_invisible(hidden)
    if shown == hidden:
        return hidden
    if hidden != text:
        hidden = _REST.sub(r"\1", hidden)
        shown = without_invisible(hidden)
    whole = _hide_in(shown)
    return hidden if whole == shown else whole  # then the text loses what is not shown


def _hide_in(text: str) -> str:
    for shape in SHAPES:
        for sign in shape.signs:  # not `any`: this is done for every text that a run reads
            if sign in text:
                text = shape.expression.sub(f"[secret: {shape.name}]", text)
                break
    if "-----END" in text:
        text = _hide_ends(text)
    return _PLACEHOLDERS[0] if len(text) >= 64 and _KEY_LINES.fullmatch(text.strip()) else text


def _hide_ends(text: str) -> str:
    """Hide the ends of keys whose beginnings were not read."""
    parts, after = [], 0
    for end in _KEY_END.finditer(text):
        first = text.rfind("\n", after, end.start()) + 1 or after
        while first > after:
            line = text.rfind("\n", after, first - 1) + 1 or after
            if not _KEY_PART.fullmatch(text, line, first):
                break
            first = line
        parts += [text[after:first], _PLACEHOLDERS[0]]
        after = end.end()
    return "".join((*parts, text[after:]))
