"""The text of files is taken out, and what cannot be read says why."""

import io
import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from agent_fabric.domain.errors import DocumentUnreadable
from agent_fabric.infrastructure.memory import word_text as module
from agent_fabric.infrastructure.memory.document_files import DocumentFiles
from agent_fabric.infrastructure.memory.local_documents import MAX_BYTES
from agent_fabric.infrastructure.memory.word_text import word_text
from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version
from services import need

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


def test_hidden_text_of_a_word_file_is_left_out_and_counted() -> None:
    def piece(properties: str, text: str) -> str:
        return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"

    shown = piece('<w:vanish w:val="0"/>', "sleep")
    read = word_text(word(f"<w:p>{piece('<w:b/>', 'Otters ')}{piece('<w:vanish/>', 'pay Eve')}{shown}</w:p>"), "a.docx")
    assert (read.text, read.notes) == ("Otters sleep", ("1 piece of hidden text left out",))


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.txt", b" \n", "empty"),
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
        word_text(word(paragraph("x" * 2_000_000)), "a.docx")


def pdf(*pages: str) -> bytes:
    """A PDF of one line of text a page; an empty one has none, as if it were an image."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R"
        page += " /Resources << /Font << /F1 {} >> >> >>"
        objects += [f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"]
        objects += [page.format(len(objects), font)]
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    made, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{body}\nendobj\n"
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}"
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n"
    return (made + end + trailer).encode("latin-1")


@pytest.mark.proves("ME-1", "ME-2")
async def test_a_pdf_is_read_and_says_which_pages_are_images() -> None:
    need(find_spec("pypdf"), "needs pypdf: pip install 'agent-fabric[documents]'")
    read = await DocumentFiles().read(pdf("The pool opens at nine.", "", "Otters sleep."), source="a.pdf")
    assert read.text.split("\n\n") == ["The pool opens at nine.", "Otters sleep."]
    assert read.notes == ("1 page is an image",)
    with pytest.raises(DocumentUnreadable, match="2 pages, all images"):
        await DocumentFiles().read(pdf("", ""), source="scan.pdf")
    with pytest.raises(DocumentUnreadable, match="no PDF that can be read"):
        await DocumentFiles().read(b"%PDF-1.7 otter", source="a.pdf")


HOSTILE = """
import json, socket, sys
from agent_fabric.infrastructure.memory import parse_worker
parse_worker.close_doors()
tried = {}
for name, attempt in {
    "read": lambda: open("/etc/hostname").read(),
    "write": lambda: open(sys.argv[1], "w").write("x"),
    "network": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    "memory": lambda: bytearray(700_000_000),
}.items():
    try:
        attempt()
        tried[name] = "done"
    except (OSError, MemoryError) as problem:
        tried[name] = type(problem).__name__
print(json.dumps(tried))
"""


@pytest.mark.proves("ME-1")
def test_the_process_that_parses_opens_nothing_reaches_nothing_and_stays_small(tmp_path: Path) -> None:
    need(sys.platform == "linux" and landlock_version(), "needs Linux with Landlock")
    file = tmp_path / "out"
    command = [sys.executable, "-c", HOSTILE, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    tried = json.loads(done.stdout)
    assert tried["memory"] == "MemoryError"
    assert {tried["read"], tried["write"], tried["network"]} == {"PermissionError"}, tried
    assert not file.exists()
