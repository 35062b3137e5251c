"""Files of runs are saved as objects and restored on another machine, the same to the last bit or not at all."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.workspace_archive import ObjectStore
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.runs.workspaces.open_archive import FolderObjects
from agent_fabric.infrastructure.runs.workspaces.s3_objects import S3Bucket, S3Credentials, S3Objects, signed_headers
from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedFolders
from contract.object_store_contract import ObjectStoreContract
from integration.workspaces.s3_stand_in import s3_stand_in

RUN = RunId("r-1")
AMAZONS_EXAMPLE = S3Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_requests_are_signed_as_amazon_documents_it(query: str, signature: str) -> None:
    url = f"https://examplebucket.s3.amazonaws.com/?{query}"
    headers = signed_headers(AMAZONS_EXAMPLE, "us-east-1", "GET", url, b"", datetime(2013, 5, 24, tzinfo=UTC))
    assert headers["authorization"].endswith(f"Signature={signature}")


@pytest.fixture
async def s3() -> AsyncIterator[tuple[str, S3Credentials]]:
    """A server that checks signatures, and somebody whom it knows."""
    async with s3_stand_in("fabric", AMAZONS_EXAMPLE) as url:
        yield url, AMAZONS_EXAMPLE


def objects_at(url: str, credentials: S3Credentials, prefix: str = "") -> S3Objects:
    async def known() -> S3Credentials:
        return credentials

    return S3Objects(S3Bucket(endpoint=url, bucket="fabric", prefix=prefix), known)


class TestFolderObjects(ObjectStoreContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectStore:
        return FolderObjects(tmp_path / "objects")


class TestS3Objects(ObjectStoreContract):
    @pytest.fixture
    async def objects(self, s3: tuple[str, S3Credentials]) -> AsyncIterator[ObjectStore]:
        store = objects_at(*s3, prefix="team/a-b")
        yield store
        await store.aclose()

    async def test_a_wrong_key_is_refused_and_not_shown(self, s3: tuple[str, S3Credentials]) -> None:
        url, known = s3
        store = objects_at(url, S3Credentials(known.access_key, "wrong"))
        with pytest.raises(StoreUnavailable, match="403 SignatureDoesNotMatch") as refused:
            await store.put("r/x", b"data")
        assert "wrong" not in refused.value.message
        await store.aclose()


def machine(folder: Path, objects: ObjectStore) -> tuple[Layout, SavedFolders]:
    layout = Layout(folder)
    layout.make()
    return layout, SavedFolders(layout, objects)


def picture(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = (path.stat().st_mode & 0o777, path.read_bytes() if path.is_file() else None)
    return found


@pytest.mark.proves("SC-11")
async def test_files_move_from_machine_to_machine(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "objects")
    (here, saving), (there, restoring) = machine(tmp_path / "here", objects), machine(tmp_path / "there", objects)
    await here.prepare(RUN)
    work = Path(here.workspace(RUN))
    (work / "deep" / "er").mkdir(parents=True)
    (work / "empty").mkdir()
    (work / "deep" / "er" / "größe.txt").write_bytes(b"\x00\xff" * 1000)
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("/etc/passwd")
    os.mkfifo(work / "pipe")
    first = await saving.save(RUN)
    assert (first.files, first.size) == (2, 2010)
    assert (await saving.save(RUN)).manifest == first.manifest

    assert await restoring.restore(RUN, first.manifest) == there.workspace(RUN)
    moved = Path(there.workspace(RUN))
    (work / "pipe").unlink()  # is not saved
    assert picture(moved) == picture(work)

    (moved / "run.sh").unlink()
    (moved / "new.txt").write_text("new")
    second = await restoring.save(RUN)
    (work / "left over.txt").write_text("of a driver that was too slow")
    await saving.restore(RUN, second.manifest)
    assert picture(work) == picture(moved)
    (work / "own.txt").write_text("made here since")
    await saving.restore(RUN, second.manifest)  # it was restored here last: what came since stays
    assert (work / "own.txt").exists()
    sent = len(list((tmp_path / "objects" / RUN).iterdir()))
    assert sent == 2 + 1 + 2  # contents, and two lists


async def test_a_changed_object_is_not_restored(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "objects")
    (here, saving), (there, restoring) = machine(tmp_path / "here", objects), machine(tmp_path / "there", objects)
    await here.prepare(RUN)
    (Path(here.workspace(RUN)) / "a.txt").write_text("as it was")
    saved = await saving.save(RUN)
    for changed in (tmp_path / "objects" / RUN).iterdir():
        before = changed.read_bytes()
        changed.write_bytes(before.replace(b"a", b"b", 1))
        with pytest.raises(StoreUnavailable, match="is not what was saved"):
            await restoring.restore(RUN, saved.manifest)
        changed.write_bytes(before)
    await restoring.restore(RUN, saved.manifest)
    assert (Path(there.workspace(RUN)) / "a.txt").read_text() == "as it was"


async def test_a_file_that_is_written_all_the_time_is_saved_as_it_was_at_some_time(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "objects")
    (here, saving), (there, restoring) = machine(tmp_path / "here", objects), machine(tmp_path / "there", objects)
    await here.prepare(RUN)
    path = Path(here.workspace(RUN)) / "log.txt"
    ends = asyncio.Event()

    async def write() -> None:
        count = 0
        while not ends.is_set():
            count += 1
            path.write_text(f"{count:010}")
            await asyncio.sleep(0)

    writing = asyncio.create_task(write())
    await asyncio.sleep(0)
    for _ in range(20):
        saved = await saving.save(RUN)
    ends.set()
    await writing
    await restoring.restore(RUN, saved.manifest)
    assert len((Path(there.workspace(RUN)) / "log.txt").read_text()) in (0, 10)
