"""Turns the bytes of a page into text, whatever they claim to be."""

import codecs
import re
from typing import Final

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META: Final = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_META_BYTES: Final = 4_096
"""How far into a page its own word about its charset is looked for; browsers stop earlier."""
_GUESS_BYTES: Final = 10_000

_CODECS: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
} | {
    name: name
    for name in (
        *("utf-8", "utf-16-le", "utf-16-be", "gb18030", "big5", "big5hkscs", "cp932", "cp949", "euc_jp", "iso2022_jp"),
        *("koi8-r", "koi8-u", "cp866", "mac-roman", "mac-cyrillic"),
        *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *(f"cp{page}" for page in (874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
    )
}
"""The charsets of the web, and what their names really mean there. Python knows more, some of them dangerous."""
_BELIEVED: Final = frozenset({"gb18030", "big5", "cp932", "cp949", "euc_jp", "cp1251", "koi8-r"})
"""Guesses that are usually right. Among the Latin charsets guessing is no better than taking the most common one."""


def decode(body: bytes, declared: str = "") -> str:
    """Decode by byte order mark, else by what the server declared, else by what the page says, else by a guess.

    What cannot be decoded becomes the replacement character.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, errors="replace")
    return body.decode(_codec(declared) or _codec_of_page(body) or _guess(body), errors="replace")


def is_wide(body: bytes, declared: str = "") -> bool:
    """Tell whether the text takes two bytes for each character, so that zero bytes are nothing strange."""
    return body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or (_codec(declared) or "").startswith("utf-16")


def _codec(label: str) -> str | None:
    try:
        return _CODECS.get(codecs.lookup(label.strip().lower().removeprefix("x-")).name) if label else None
    except (LookupError, ValueError):
        return None


def _codec_of_page(body: bytes) -> str | None:
    found = _META.search(body[:_META_BYTES])
    if found is None:
        return None
    codec = _codec((found[1] or found[2]).decode("ascii", errors="replace"))
    # A page that could be searched as single bytes is not UTF-16, whatever it says.
    return "utf-8" if codec is not None and codec.startswith("utf-16") else codec


def _guess(body: bytes) -> str:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)  # a character cut in two at the end does not count
    except UnicodeDecodeError:
        from trafilatura.utils import detect_encoding  # noqa: PLC0415 - heavy, and rarely needed

        guesses = detect_encoding(body[:_GUESS_BYTES])
        codec = _codec(guesses[0]) if guesses else None
        return codec if codec in _BELIEVED else "cp1252"
    return "utf-8"
