"""Takes the text out of files: plain text in any charset, HTML, Word, PDF. Work for a process of its own."""

from pathlib import PurePath
from typing import Final

from agent_fabric.application.ports.memory import DocumentText
from agent_fabric.domain.errors import DocumentUnreadable
from agent_fabric.infrastructure.web.extract import HTML, ContentKind, kind_of, read, settle_type

MAX_CHARS: Final = 20_000_000
WORD: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PDF: Final = "application/pdf"
_SUFFIXES: Final = {".html": HTML, ".htm": HTML, ".xhtml": HTML, ".docx": WORD, ".pdf": PDF}


def type_of(data: bytes, source: str, media_type: str) -> str:
    """Return what a file is: what is said about it, its name, or what it looks like."""
    declared = media_type.partition(";")[0].strip().lower() or _SUFFIXES.get(PurePath(source).suffix.lower(), "")
    return WORD if declared == WORD else settle_type(declared, data, "")


def is_plain(content_type: str) -> bool:
    """Tell whether a file is text as it stands, which needs no parser."""
    return kind_of(content_type) is ContentKind.TEXT


def parse_document(data: bytes, source: str, media_type: str) -> DocumentText:
    """Return the text of a file.

    Raises:
        DocumentUnreadable: it is damaged, encrypted, or of a kind that is not read.
        MissingExtra: what reads such files is not installed.
    """
    content_type = type_of(data, source, media_type)
    if content_type == WORD:
        from agent_fabric.infrastructure.memory.word_text import word_text  # noqa: PLC0415 - few files need it

        return _fit(word_text(data, source))
    if content_type == PDF:
        from agent_fabric.infrastructure.memory.pdf_text import pdf_text  # noqa: PLC0415 - few files need it

        return _fit(pdf_text(data, source))
    if kind_of(content_type) is ContentKind.OTHER:
        raise DocumentUnreadable(
            f"{source} is no text: it looks like {content_type}",
            hint="Text, Markdown, code, HTML, Word and PDF files are read.",
        )
    found = read(data, content_type, "")
    notes = ("The page was longer than what is read of one",) if found.cut else ()
    return _fit(DocumentText(found.text, found.title, notes))


def _fit(found: DocumentText) -> DocumentText:
    """Return the text without what no database stores, and say so if it had to be cut."""
    text = found.text.replace("\r\n", "\n").replace("\0", "")
    if len(text) <= MAX_CHARS:
        return found._replace(text=text)
    note = f"Only the first {MAX_CHARS:,} of {len(text):,} characters were read"
    return found._replace(text=text[:MAX_CHARS], notes=(*found.notes, note))
