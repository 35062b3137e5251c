"""Takes the text out of Word files: archives of XML that anybody may have made, so sizes and entities are bounded."""

import io
import re
import zipfile
from typing import Any, Final
from xml.parsers import expat

from agent_fabric.domain.errors import DocumentUnreadable

MAX_XML_BYTES: Final = 60_000_000
_BODY: Final = "word/document.xml"
_PIECE: Final = 1 << 16
_HEADING: Final = re.compile(r"(?:Heading|berschrift)\s?([1-6])$", re.IGNORECASE)
_W: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "


def word_text(data: bytes, source: str) -> str:
    """Return the paragraphs of a Word file, headings as in Markdown.

    Raises:
        DocumentUnreadable: it is none, is encrypted, or would unpack into far too much.
    """
    reading = _Reading(source)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_BODY) as body:
            while piece := body.read(_PIECE):
                reading.feed(piece)
        return reading.finish()
    except (zipfile.BadZipFile, KeyError, RuntimeError, NotImplementedError, EOFError, expat.ExpatError) as problem:
        raise DocumentUnreadable(
            f"{source} is no Word file that can be read: {problem}", hint="Save it again as .docx without a password."
        ) from problem


class _Reading:
    """Reads the body piece by piece."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._size = 0
        self._paragraphs: list[str] = []
        self._pieces: list[str] = []
        self._level = 0
        self._in_text = False
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse_entity
        self._parser = parser

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_XML_BYTES:
            raise DocumentUnreadable(
                f"{self._source} unpacks into more than {MAX_XML_BYTES // 1_000_000} MB", hint="Split it into parts."
            )
        self._parser.Parse(piece, False)

    def finish(self) -> str:
        self._parser.Parse(b"", True)
        return "\n\n".join(filter(None, self._paragraphs))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        match name.removeprefix(_W):
            case "p":
                self._pieces, self._level = [], 0
            case "pStyle":
                found = _HEADING.search(attributes.get(f"{_W}val", ""))
                self._level = int(found[1]) if found else 0
            case "t":
                self._in_text = True
            case "tab":
                self._pieces.append("\t")
            case "br" | "cr":
                self._pieces.append("\n")
            case _:
                pass

    def _end(self, name: str) -> None:
        match name.removeprefix(_W):
            case "t":
                self._in_text = False
            case "p":
                text = "".join(self._pieces).strip()
                self._paragraphs.append(f"{'#' * self._level} {text}" if self._level and text else text)
                self._pieces = []
            case _:
                pass

    def _text(self, text: str) -> None:
        if self._in_text:
            self._pieces.append(text)

    def _refuse_entity(self, *_: Any) -> None:
        raise DocumentUnreadable(f"{self._source} defines entities, which no Word file needs")
