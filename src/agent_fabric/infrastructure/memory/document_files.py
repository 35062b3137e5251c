"""Takes the text out of files: plain text in any charset, HTML, Word."""

import asyncio
from pathlib import PurePath
from typing import Final

from agent_fabric.application.ports.memory import DocumentText
from agent_fabric.domain.errors import DocumentUnreadable
from agent_fabric.infrastructure.memory.word_text import word_text
from agent_fabric.infrastructure.web.extract import HTML, ContentKind, kind_of, read, settle_type

MAX_BYTES: Final = 50_000_000
MAX_CHARS: Final = 20_000_000
PARSE_TIMEOUT_S: Final = 60.0
_WORD: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_PDF: Final = "application/pdf"
_SUFFIXES: Final = {".html": HTML, ".htm": HTML, ".xhtml": HTML, ".docx": _WORD, ".pdf": _PDF}


class DocumentFiles:
    """DocumentReader of plain text, HTML and Word files."""

    async def read(self, data: bytes, *, source: str, media_type: str = "") -> DocumentText:
        if not data.strip():
            raise DocumentUnreadable(f"{source} is empty")
        if len(data) > MAX_BYTES:
            raise DocumentUnreadable(
                f"{source} has {len(data):,} bytes, and at most {MAX_BYTES:,} are read", hint="Split it into parts."
            )
        try:
            async with asyncio.timeout(PARSE_TIMEOUT_S):
                return await asyncio.to_thread(_read, data, source, media_type)
        except TimeoutError as problem:
            raise DocumentUnreadable(f"Reading {source} took longer than {PARSE_TIMEOUT_S:.0f} s") from problem


def _read(data: bytes, source: str, media_type: str) -> DocumentText:
    declared = media_type.partition(";")[0].strip().lower() or _SUFFIXES.get(PurePath(source).suffix.lower(), "")
    content_type = _WORD if declared == _WORD else settle_type(declared, data, "")
    if content_type == _WORD:
        return _fitted(DocumentText(word_text(data, source)))
    if content_type == _PDF:
        raise DocumentUnreadable(
            f"{source} is a PDF, which is not read", hint="Take its text out first: pdftotext FILE.pdf FILE.txt"
        )
    if kind_of(content_type) is ContentKind.OTHER:
        raise DocumentUnreadable(
            f"{source} is no text: it looks like {content_type}", hint="Text, Markdown, code, HTML and Word are read."
        )
    found = read(data, content_type, "")
    notes = ("The page was longer than what is read of one",) if found.cut else ()
    return _fitted(DocumentText(found.text, found.title, notes))


def _fitted(found: DocumentText) -> DocumentText:
    """Return the text without what no database stores, and say so if it had to be cut."""
    text = found.text.replace("\r\n", "\n").replace("\0", "")
    if len(text) <= MAX_CHARS:
        return found._replace(text=text)
    note = f"Only the first {MAX_CHARS:,} of {len(text):,} characters were read"
    return found._replace(text=text[:MAX_CHARS], notes=(*found.notes, note))
