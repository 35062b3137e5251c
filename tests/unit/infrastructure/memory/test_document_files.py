"""The text of files is taken out, and what cannot be read says why."""

import io
import zipfile

import pytest

from agent_fabric.domain.errors import DocumentUnreadable
from agent_fabric.infrastructure.memory import word_text as module
from agent_fabric.infrastructure.memory.document_files import MAX_BYTES, DocumentFiles

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def word(body: str, *, before: str = "", name: str = "word/document.xml") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, f'<?xml version="1.0"?>{before}<w:document {W}><w:body>{body}</w:body></w:document>')
    return packed.getvalue()


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t><w:tab/><w:t>é</w:t></w:r></w:p>"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.md", b"# Otters\r\nsleep", "# Otters\nsleep"),
        ("a.txt", "Größe".encode("cp1252"), "Größe"),
        ("a.txt", "水獭".encode("utf-16"), "水獭"),
        ("a.py", b"print('otter')", "print('otter')"),
        ("a.json", b'{"otter": 1}', '{"otter": 1}'),
        ("a.csv", b"name,age\notter,3", "name,age\notter,3"),
    ],
)
async def test_plain_text_is_read_in_any_charset(name: str, data: bytes, text: str) -> None:
    assert (await DocumentFiles().read(data, source=name)).text == text


async def test_a_word_file_becomes_paragraphs_and_headings() -> None:
    data = word(paragraph("Otters", "Heading1") + paragraph("They sleep") + "<w:p/>" + paragraph("Ende", "berschrift2"))
    read = await DocumentFiles().read(data, source="a.docx")
    assert read.text == "# Otters\té\n\nThey sleep\té\n\n## Ende\té"


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.txt", b" \n", "empty"),
        ("a.pdf", b"%PDF-1.7 otter", "PDF"),
        ("a.png", b"\x89PNG\r\n otter", "image/png"),
        ("a.bin", b"\x00\x01\x02" * 20, "no text"),
        ("a.docx", b"PK\x03\x04 broken", "no Word file"),
        ("a.docx", word("", name="word/other.xml"), "no Word file"),
        ("a.docx", word("<w:p>"), "no Word file"),
        ("a.txt", b"x" * (MAX_BYTES + 1), "bytes"),
    ],
)
async def test_what_cannot_be_read_says_why(name: str, data: bytes, problem: str) -> None:
    with pytest.raises(DocumentUnreadable, match=problem):
        await DocumentFiles().read(data, source=name)


async def test_entities_and_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    laughs = '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    with pytest.raises(DocumentUnreadable, match="entities"):
        await DocumentFiles().read(word(paragraph("&b;"), before=laughs), source="a.docx")
    monkeypatch.setattr(module, "MAX_XML_BYTES", 1_000_000)
    with pytest.raises(DocumentUnreadable, match="unpacks"):
        await DocumentFiles().read(word(paragraph("x" * 2_000_000)), source="a.docx")
