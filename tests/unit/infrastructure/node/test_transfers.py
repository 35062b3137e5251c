"""Files are copied in chunks, and only what was approved is written."""

import hashlib
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.fleet.protocol import CHUNK_BYTES
from agent_fabric.infrastructure.node import transfers as module
from agent_fabric.infrastructure.node.file_tools import NodeFiles
from agent_fabric.infrastructure.node.processes import run_as
from agent_fabric.infrastructure.node.spool import Spool
from agent_fabric.infrastructure.node.transfers import TransferProblem, Transfers

ID = "execution-1"
CONTENT = os.urandom(CHUNK_BYTES + 1_000)


@pytest.fixture
def open_files(tmp_path: Path) -> Iterator[tuple[Transfers, Path]]:
    own, root = tmp_path / "node", tmp_path / "srv"
    for folder in (own, own / "uploads", own / "outputs", root):
        folder.mkdir()
    spool = Spool(own / "spool.db")
    files = NodeFiles((str(root),), own, run_as("nobody", allow_root=True))
    yield Transfers(files, spool, own / "uploads", own / "outputs"), root
    spool.close()


def wish(path: Path, content: bytes = CONTENT) -> dict[str, Any]:
    return {"path": str(path), "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def chunk(offset: int, data: bytes, execution_id: str = ID) -> dict[str, Any]:
    return {"execution_id": execution_id, "offset": offset, "data": b64encode(data).decode()}


@pytest.mark.proves("FL-13")
async def test_a_file_arrives_whole_or_not_at_all(open_files: tuple[Transfers, Path]) -> None:
    transfers, root = open_files
    target = root / "data.bin"
    target.write_bytes(b"before")
    opened = await transfers.open(ID, "file_put", wish(target))
    assert opened["output"]["offset"] == 0
    first = await transfers.write(chunk(0, CONTENT[:CHUNK_BYTES]))
    assert first == {"offset": CHUNK_BYTES, "done": False}
    assert target.read_bytes() == b"before"
    assert await transfers.write(chunk(0, CONTENT[:CHUNK_BYTES])) == first  # it came twice
    resumed = await transfers.open("execution-2", "file_put", wish(target))
    assert resumed["output"]["offset"] == CHUNK_BYTES
    done = await transfers.write(chunk(CHUNK_BYTES, CONTENT[CHUNK_BYTES:], "execution-2"))
    assert done == {"offset": len(CONTENT), "done": True}
    assert target.read_bytes() == CONTENT
    with pytest.raises(TransferProblem, match="done"):
        await transfers.write(chunk(0, b"x", "execution-2"))
    assert list(transfers.uploads.iterdir()) == []


@pytest.mark.proves("FL-13", "FL-19")
async def test_other_content_than_was_approved_is_thrown_away(open_files: tuple[Transfers, Path]) -> None:
    transfers, root = open_files
    target = root / "data.bin"
    await transfers.open(ID, "file_put", wish(target, b"approved"))
    with pytest.raises(TransferProblem, match="not the one that was approved"):
        await transfers.write(chunk(0, b"smuggled"))
    with pytest.raises(TransferProblem, match="longer"):
        await transfers.write(chunk(0, b"approved and more"))
    assert not target.exists()
    assert (await transfers.write(chunk(0, b"approved")))["done"]
    assert target.read_bytes() == b"approved"


@pytest.mark.proves("FL-13", "FL-15")
async def test_nothing_is_written_outside_of_the_roots_or_into_the_nodes_folder(
    open_files: tuple[Transfers, Path], tmp_path: Path
) -> None:
    transfers, root = open_files
    outside = await transfers.open(ID, "file_put", wish(tmp_path / "other"))
    assert outside["status"] == "error"
    (root / "link").symlink_to(transfers.uploads.parent)
    await transfers.open(ID, "file_put", wish(root / "link" / "node.toml", b"profile"))
    with pytest.raises(TransferProblem):
        await transfers.write(chunk(0, b"profile"))
    assert not (transfers.uploads.parent / "node.toml").exists()
    with pytest.raises(TransferProblem, match="never approved"):
        await transfers.write(chunk(0, b"x", "execution-9"))


async def test_an_empty_file_is_a_file(open_files: tuple[Transfers, Path]) -> None:
    transfers, root = open_files
    await transfers.open(ID, "file_put", wish(root / "empty", b""))
    assert (await transfers.write(chunk(0, b"")))["done"]
    assert (root / "empty").read_bytes() == b""


@pytest.mark.proves("FL-13")
async def test_a_file_is_read_as_it_was_when_it_was_opened(open_files: tuple[Transfers, Path]) -> None:
    transfers, root = open_files
    source = root / "data.bin"
    source.write_bytes(CONTENT)
    opened = await transfers.open(ID, "file_get", {"path": str(source)})
    assert opened["output"]["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    first = await transfers.read({"execution_id": ID, "offset": 0})
    rest = await transfers.read({"execution_id": ID, "offset": CHUNK_BYTES})
    assert b64decode(first["data"]) + b64decode(rest["data"]) == CONTENT
    source.write_bytes(b"changed")
    with pytest.raises(TransferProblem, match="changed"):
        await transfers.read({"execution_id": ID, "offset": 0})


@pytest.mark.proves("FL-11")
def test_long_outputs_can_be_fetched_until_they_are_old_or_too_much(
    open_files: tuple[Transfers, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    transfers, _ = open_files
    for name, age_s in (("execution-1", 0.0), ("execution-2", 100.0), ("execution-3", 8 * 86_400.0)):
        transfers.spool.receive(name, "h", "run_command", {})
        path = transfers.outputs / f"{name}.out"
        path.write_bytes(name.encode() * 100)
        os.utime(path, (time.time() - age_s,) * 2)
    told = transfers.output({"execution_id": "execution-1", "stream": "stdout", "offset": 1_090})
    assert (b64decode(told["data"]), told["size"]) == (b"xecution-1"[-10:], 1_100)
    for wrong in (
        {"execution_id": "../spool"},
        {"execution_id": ID, "stream": "db"},
        {"execution_id": ID, "offset": -1},
    ):
        with pytest.raises(TransferProblem):
            transfers.output(wrong)
    transfers.forget_old()
    assert {path.name for path in transfers.outputs.iterdir()} == {"execution-1.out", "execution-2.out"}
    monkeypatch.setattr(module, "MAX_OUTPUT_BYTES", 1_500)
    transfers.forget_old()
    assert [path.name for path in transfers.outputs.iterdir()] == ["execution-1.out"]
