"""Takes the text out of PDF files, and says which pages have none."""

import importlib
import io
import logging
from typing import Any, Final

from agent_fabric.application.ports.memory import DocumentText
from agent_fabric.domain.errors import DocumentUnreadable, MissingExtra
from agent_fabric.domain.plural import count_of

MAX_PAGES: Final = 5_000
_OCR: Final = "Let a program recognise its letters first, such as ocrmypdf."


def pdf_text(data: bytes, source: str) -> DocumentText:
    """Return the text of a PDF file, page by page.

    Raises:
        DocumentUnreadable: it is damaged, encrypted, or has nothing but images.
        MissingExtra: what reads PDF files is not installed.
    """
    try:
        pypdf: Any = importlib.import_module("pypdf")
    except ImportError:
        raise MissingExtra("documents", needed_for="Reading PDF files") from None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what is wrong with a file is said once, by us
    try:
        found = pypdf.PdfReader(io.BytesIO(data))
        if found.is_encrypted and not found.decrypt(""):
            raise DocumentUnreadable(f"{source} is encrypted", hint="Save it without a password.")
        count = len(found.pages)
        pages = [str(found.pages[number].extract_text() or "").strip() for number in range(min(count, MAX_PAGES))]
        title = str((found.metadata or {}).get("/Title") or "").strip()
    except DocumentUnreadable:
        raise
    except (MemoryError, RecursionError) as problem:
        raise DocumentUnreadable(f"{source} takes more memory than a document may") from problem
    except Exception as problem:
        # Any error of a parser means the same: the file is none that can be read.
        raise DocumentUnreadable(
            f"{source} is no PDF that can be read: {type(problem).__name__}", hint="Open it and save it again."
        ) from problem
    images = sum(not page for page in pages)
    if images == len(pages):
        raise DocumentUnreadable(f"There is no text in {source}: {count_of(images, 'page')}, all images", hint=_OCR)
    notes = [f"{count_of(images, 'page')} {'is an image' if images == 1 else 'are images'}"] if images else []
    if count > MAX_PAGES:
        notes.append(f"Only the first {MAX_PAGES:,} of {count:,} pages were read")
    return DocumentText("\n\n".join(filter(None, pages)), title, tuple(notes))
