"""Finds out what a web server sent, and what a person would read in it."""

import itertools
import re
import threading
from enum import Enum
from typing import Final, NamedTuple

from agent_fabric.domain.policy.injection.folding import cap
from agent_fabric.infrastructure.web.charsets import decode, is_wide

HTML: Final = "text/html"
_HTML_TYPES: Final = frozenset({HTML, "application/xhtml+xml"})
_TEXT_TYPES: Final = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "javascript", "x-javascript", "ndjson", "x-ndjson", "yaml", "x-yaml", "toml", "sql")
)
_NO_TYPE: Final = frozenset({"", "application/octet-stream", "application/unknown", "unknown/unknown"})
"""What servers say when they do not know."""
_BINARY_STARTS: Final = (
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_SNIFFED_BYTES: Final = 1_024
MAX_PARSED_CHARS: Final = 2_000_000
MAX_PARSED_MARKS: Final = 100_000
"""Beginnings of tags, and attributes: each takes some hundred bytes of a tree."""
_MARK: Final = re.compile("[<=]")
_PARSING: Final = threading.BoundedSemaphore(2)
"""Pages that are parsed at once; each may take 100 MB for a moment."""


class ContentKind(Enum):
    """How a content can be read."""

    HTML = "html"
    TEXT = "text"
    OTHER = "other"
    """Not at all: an image, a PDF, a program."""


class ExtractedText(NamedTuple):
    """What a person would read."""

    title: str
    text: str
    source: str = ""
    """Of HTML: what the text was taken from, at most so much as a scan reads."""
    cut: bool = False
    """The page was longer than what is parsed of one."""


def kind_of(content_type: str) -> ContentKind:
    """Return how a content of this type can be read."""
    if content_type in _HTML_TYPES:
        return ContentKind.HTML
    if content_type.startswith("text/") or content_type.endswith(("+json", "+xml")) or content_type in _TEXT_TYPES:
        return ContentKind.TEXT
    return ContentKind.OTHER


def is_told(content_type: str) -> bool:
    """Tell whether a server's word about the type means anything."""
    return content_type not in _NO_TYPE


def settle_type(declared: str, body: bytes, charset: str) -> str:
    """Return what a content is: what the server said, unless it said nothing or the content shows otherwise."""
    looks = _looks_like(body, charset)
    return declared if is_told(declared) and kind_of(looks) is not ContentKind.OTHER else looks


def read(body: bytes, content_type: str, charset: str) -> ExtractedText:
    """Return title and main text of a page, or the whole text if it is not HTML.

    This is work for a thread: a page of a few megabytes takes seconds.
    """
    text = decode(body, charset)
    if kind_of(content_type) is not ContentKind.HTML:
        return ExtractedText("", text)
    from agent_fabric.infrastructure.web.html_text import main_text, parse_html, plain_text, title_of  # noqa: PLC0415 - heavy

    page = parsable(text)
    with _PARSING:
        tree = parse_html(page)
        if tree is None:
            return ExtractedText("", "", cap(text))
        found = main_text(page) or plain_text(tree)
        return ExtractedText(title_of(tree), found, cap(text), cut=len(page) < len(text))


def parsable(page: str) -> str:
    """Return so much of a page as may be parsed: a tree takes up to 65 times the size of the page."""
    page = page[:MAX_PARSED_CHARS]
    if page.count("<") + page.count("=") <= MAX_PARSED_MARKS:
        return page
    marks = _MARK.finditer(page)
    return page[: next(itertools.islice(marks, MAX_PARSED_MARKS, None)).start()]


def _looks_like(body: bytes, charset: str) -> str:
    for start, content_type in _BINARY_STARTS:
        if body.startswith(start):
            return content_type
    beginning = body[:_SNIFFED_BYTES].lower()
    if b"\0" in beginning and not is_wide(body, charset):
        return "application/octet-stream"
    if b"<html" in beginning or b"<!doctype html" in beginning or b"<body" in beginning:
        return HTML
    return "text/xml" if beginning.lstrip().startswith(b"<?xml") else "text/plain"
