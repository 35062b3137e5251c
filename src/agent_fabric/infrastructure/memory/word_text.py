"""Takes the text out of Word files: archives of XML that anyone may have made, so sizes and entities are bounded."""

import io
import re
import zipfile
from typing import Any, Final
from xml.parsers import expat

from agent_fabric.application.ports.memory import DocumentText
from agent_fabric.domain.errors import DocumentUnreadable
from agent_fabric.domain.plural import count_of

MAX_XML_BYTES: Final = 60_000_000
_BODY: Final = "word/document.xml"
_PIECE: Final = 1 << 16
_HEADING: Final = re.compile(r"(?:Heading|berschrift)\s?([1-6])$", re.IGNORECASE)
_OFF: Final = ("0", "false", "off")
_W: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "


def word_text(data: bytes, source: str) -> DocumentText:
    """Return the paragraphs of a Word file, headings as in Markdown. Hidden text, which no one sees, is left out.

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
        self._is_hidden = False
        self._hidden = 0
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

    def finish(self) -> DocumentText:
        self._parser.Parse(b"", True)
        notes = (f"{count_of(self._hidden, 'piece')} of hidden text left out",) if self._hidden else ()
        return DocumentText("\n\n".join(filter(None, self._paragraphs)), notes=notes)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        match name.removeprefix(_W):
            case "p":
                self._pieces, self._level = [], 0
            case "pStyle":
                found = _HEADING.search(attributes.get(f"{_W}val", ""))
                self._level = int(found[1]) if found else 0
            case "r":
                self._is_hidden = False
            case "vanish":
                self._is_hidden = attributes.get(f"{_W}val", "true") not in _OFF
            case "t":
                self._in_text = not self._is_hidden
                self._hidden += self._is_hidden
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
