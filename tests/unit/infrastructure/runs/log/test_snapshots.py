"""Snapshots: what a run has fetched stays as it came, and a pack that is opened again finds it."""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fabric.application.ports.web import Page
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.secrets.run_encryption import RunCipher
from agent_fabric.infrastructure.runs.log.snapshots import MAX_TEXT_CHARS, SnapshotFolder

BODY = b"<p>caf\xc3\xa9</p>"


def page(url: str = "https://a.org/x", *, body: bytes = BODY, kind: str = "text/html", text: str = "café") -> Page:
    return Page(
        url=url,
        final_url=url + "/final",
        status=200,
        content_type=kind,
        body=body,
        title="T",
        text=text,
        cut=False,
    )


def text_file(folder: Path) -> Path:
    (found,) = folder.glob("*.txt")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


async def test_a_page_is_kept_as_bytes_text_and_a_line_in_the_index(folder: Path) -> None:
    source = await SnapshotFolder(folder).keep(page(), fetched_at=1.5)
    digest = hashlib.sha256(BODY).hexdigest()
    assert source.sha256 == digest
    read_out = hashlib.sha256("café".encode()).hexdigest()
    text = f"{digest}-{read_out[:16]}.txt"
    assert sorted(file.name for file in folder.iterdir()) == sorted([f"{digest}.html", text, "index.jsonl"])
    assert (folder / f"{digest}.html").read_bytes() == BODY
    assert (folder / text).read_text() == "café"
    assert json.loads((folder / "index.jsonl").read_text()) == {
        "url": "https://a.org/x",
        "final_url": "https://a.org/x/final",
        "title": "T",
        "content_type": "text/html",
        "fetched_at": 1.5,
        "sha256": digest,
        "text_sha256": read_out,
    }


async def test_another_process_finds_the_page_under_either_address(folder: Path) -> None:
    assert await SnapshotFolder(folder).find("https://a.org/x") is None
    source = await SnapshotFolder(folder).keep(page(), fetched_at=1.5)
    again = SnapshotFolder(folder)
    assert await again.find("https://A.org/x#part") == source
    assert await again.find("https://a.org/x/final/") == source
    assert await again.find("https://a.org/other") is None


async def test_keeping_twice_is_the_same_as_once_and_the_newest_version_is_found(folder: Path) -> None:
    snapshots = SnapshotFolder(folder)
    await snapshots.keep(page(), fetched_at=1.0)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    await snapshots.keep(page(), fetched_at=1.0)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    await snapshots.keep(page(body=b"new", text="new text"), fetched_at=2.0)
    found = await snapshots.find("https://a.org/x")
    assert found is not None
    assert found.text == "new text"


async def test_pages_kept_at_the_same_time_are_all_in_the_index(folder: Path) -> None:
    many = [SnapshotFolder(folder).keep(page(f"https://a.org/{n}"), fetched_at=n) for n in range(30)]
    await asyncio.gather(*many)
    lines = (folder / "index.jsonl").read_text().splitlines()
    assert {json.loads(line)["url"] for line in lines} == {f"https://a.org/{n}" for n in range(30)}
    assert not list(folder.glob(".*")), "nothing half written is left"


@pytest.mark.parametrize("kind", ["text/plain", "application/pdf", "application/octet-stream", "image/png"])
async def test_the_bytes_never_share_a_name_with_the_text(folder: Path, kind: str) -> None:
    snapshots = SnapshotFolder(folder)
    source = await snapshots.keep(page(kind=kind, body=b"\xff raw", text="read out"), fetched_at=1.0)
    assert await snapshots.damage_to(source) == ""
    assert text_file(folder).read_text() == "read out"


async def test_a_text_that_is_too_long_or_not_quite_text_is_kept_as_it_will_be_read(folder: Path) -> None:
    snapshots = SnapshotFolder(folder)
    source = await snapshots.keep(page(text="\ud800" + "x" * MAX_TEXT_CHARS), fetched_at=1.0)
    assert len(source.text) == MAX_TEXT_CHARS
    assert await snapshots.find(source.url) == source


async def test_damage_is_noticed(folder: Path) -> None:
    snapshots = SnapshotFolder(folder)
    source = await snapshots.keep(page(), fetched_at=1.0)
    file = folder / f"{source.sha256}.html"
    file.write_bytes(BODY + b" ")
    assert "is not what was fetched" in await snapshots.damage_to(source)
    file.unlink()
    assert await snapshots.damage_to(source) == "the snapshot is gone"


async def test_the_same_bytes_read_in_two_ways_keep_both_texts(folder: Path) -> None:
    snapshots = SnapshotFolder(folder)
    as_html = await snapshots.keep(page("https://a.org/html", text="café"), fetched_at=1.0)
    as_text = await snapshots.keep(page("https://a.org/text", kind="text/plain", text="<p>café</p>"), fetched_at=2.0)
    assert as_html.sha256 == as_text.sha256
    for source in (as_html, as_text):
        assert await snapshots.find(source.url) == source
        assert await snapshots.damage_to(source) == ""


async def test_every_version_of_a_page_is_found_the_newest_first(folder: Path) -> None:
    snapshots = SnapshotFolder(folder)
    for number in (1, 2, 3):
        await snapshots.keep(page(body=b"%d" % number, text=f"version {number}"), fetched_at=number)
    assert [each.text for each in await snapshots.versions("https://A.org/x")] == [
        "version 3",
        "version 2",
        "version 1",
    ]
    assert await snapshots.versions("https://a.org/other") == []


async def test_pages_that_an_earlier_version_kept_are_still_read(folder: Path) -> None:
    snapshots = SnapshotFolder(folder)
    source = await snapshots.keep(page(), fetched_at=1.0)
    text_file(folder).rename(folder / f"{source.sha256}.txt")
    entry = json.loads((folder / "index.jsonl").read_text())
    del entry["text_sha256"]
    (folder / "index.jsonl").write_text(json.dumps(entry) + "\n")
    assert await snapshots.find(source.url) == source
    assert await snapshots.damage_to(source) == ""
    (folder / f"{source.sha256}.txt").write_text("forged")
    assert "is not what was read on the page" in await snapshots.damage_to(source)


async def test_a_forged_text_is_noticed_and_not_used(folder: Path) -> None:
    snapshots = SnapshotFolder(folder)
    source = await snapshots.keep(page(), fetched_at=1.0)
    text_file(folder).write_text("what the page never said")
    assert "is not what was read on the page" in await snapshots.damage_to(source)
    assert await snapshots.find(source.url) is None
    text_file(folder).unlink()
    assert await snapshots.damage_to(source) == "the text that was read on the page is gone"


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("ending", ["html", "txt"])
@pytest.mark.parametrize(
    ("replace", "told"),
    [
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "it is no longer a file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a link now"),
        (_sparse, "more than any page that is kept"),
    ],
    ids=["directory", "pipe", "link", "huge"],
)
async def test_what_is_no_snapshot_is_damage_and_never_read(
    folder: Path, ending: str, replace: Callable[[Path], None], told: str
) -> None:
    snapshots = SnapshotFolder(folder)
    source = await snapshots.keep(page(), fetched_at=1.0)
    (file,) = folder.glob(f"*.{ending}")
    file.unlink()
    replace(file)
    async with asyncio.timeout(30):
        assert told in await snapshots.damage_to(source)
        assert (await snapshots.find(source.url) is None) == (ending == "txt")


async def test_pages_of_an_encrypted_run_are_sealed_and_so_are_their_names(folder: Path) -> None:
    def cipher() -> RunCipher:
        return RunCipher(RunId("run-1"), b"k" * 32)

    snapshots = SnapshotFolder(folder, cipher)
    source = await snapshots.keep(page(), fetched_at=1.5)
    again = SnapshotFolder(folder, cipher)
    assert await again.find("https://a.org/x") == source
    assert await again.damage_to(source) == ""
    files = list(folder.iterdir())
    assert {file.suffix for file in files} == {".sealed"}
    kept = b"".join(file.name.encode() + file.read_bytes() for file in files)
    digests = [hashlib.sha256(each).hexdigest().encode() for each in (BODY, "café".encode())]
    assert not [told for told in (BODY, b"a.org", b"caf", *digests) if told in kept]
    # A file under another's name is not taken for it.
    first, second, *_ = files
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    assert await SnapshotFolder(folder, cipher).damage_to(source)
