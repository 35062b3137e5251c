"""Weights from a hub over real sockets: broken connections, wrong files, full disks, and many who want the same."""

import asyncio
import contextlib
import errno
import os
import re
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent_fabric.domain.errors import WeightsUnavailable
from agent_fabric.infrastructure.models.weights.catalogue import HubFile
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder
from agent_fabric.infrastructure.models.weights.mirrors import PartFile, Progress
from integration.llm.weights_mirrors import (
    CONTENT,
    OTHER,
    Fault,
    Notices,
    cut_after,
    gives,
    hub,
    impatient,
    model_with,
    redirects_to,
    says,
    stalls_after,
)

SIZE = len(CONTENT)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".part" in path.name or "staging" in path.name)


def begin_of(wanted: str | None) -> int:
    assert wanted is not None
    return int(wanted.removeprefix("bytes=").removesuffix("-"))


async def test_weights_are_downloaded_once_checked_and_remembered(tmp_path: Path) -> None:
    async with hub() as server:
        model, notices = model_with(server.source), Notices()
        path = await impatient(tmp_path).ensure(model, notices)
        assert path.read_bytes() == CONTENT
        assert path == tmp_path / "tiny-model.gguf"
        assert "tiny-model from 127.0.0.1:" in notices.all
        assert leftovers(tmp_path) == []
        again = Notices()
        assert await impatient(tmp_path).ensure(model, again) == path
        assert again.texts == []
        assert len(server.asked) == 1


async def test_a_download_that_broke_off_goes_on_where_it_was(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.extend([cut_after(1_200_000), cut_after(600_000)])
        path = await impatient(tmp_path).ensure(model_with(server.source), Notices())
        assert path.read_bytes() == CONTENT
        (first, *_), (second, tag), (third, _) = server.asked
        assert (first, tag) == (None, '"v1"')
        assert 1_000_000 < begin_of(second) < begin_of(third)


async def test_a_server_that_gives_no_pieces_is_asked_for_the_whole(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.extend([cut_after(1_200_000), gives(CONTENT)])
        path = await impatient(tmp_path).ensure(model_with(server.source), Notices())
        assert path.read_bytes() == CONTENT


async def test_a_file_that_changed_on_the_server_is_begun_anew(tmp_path: Path) -> None:
    async with hub() as server:
        server.content, server.tag = OTHER, '"old"'
        server.faults.extend([cut_after(1_200_000), says(404)])
        model = model_with(server.source)
        with pytest.raises(WeightsUnavailable):
            await impatient(tmp_path).ensure(model, Notices())
        server.content, server.tag = CONTENT, '"new"'
        path = await impatient(tmp_path).ensure(model, Notices())
        assert path.read_bytes() == CONTENT
        assert begin_of(server.asked[-1][0]) > 1_000_000
        assert server.asked[-1][1] == '"old"'


async def test_a_damaged_beginning_left_by_a_crash_is_thrown_away(tmp_path: Path) -> None:
    async with hub() as server:
        model, notices = model_with(server.source), Notices()
        weights = impatient(tmp_path)
        weights.folder.part_of(model, "hub").append(b"GGUF" + bytes(1_000_000))
        path = await weights.ensure(model, notices)
        assert path.read_bytes() == CONTENT
        assert "damaged; starting again" in notices.all


@pytest.mark.parametrize("length", [SIZE, SIZE + 5])
async def test_a_beginning_that_is_too_long_or_already_whole_does_no_harm(tmp_path: Path, length: int) -> None:
    async with hub() as server:
        model, weights = model_with(server.source), impatient(tmp_path)
        weights.folder.part_of(model, "hub").append((CONTENT + b"12345")[:length])
        path = await weights.ensure(model, Notices())
        assert path.read_bytes() == CONTENT
        assert len(server.asked) == (0 if length == SIZE else 1)


async def test_redirects_are_followed_to_the_letter(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.append(redirects_to("/cdn/model.gguf?sig=a%2Fb%3D&x=%27y%27"))
        path = await impatient(tmp_path).ensure(model_with(server.source), Notices())
        assert path.read_bytes() == CONTENT
        assert len(server.asked) == 2


async def test_the_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub() as proxy:
        monkeypatch.setenv("http_proxy", proxy.source.url.removesuffix("/model.gguf"))
        monkeypatch.delenv("no_proxy", raising=False)
        behind = HubFile(url="http://hub.invalid/model.gguf")
        path = await impatient(tmp_path).ensure(model_with(behind), Notices())
        assert path.read_bytes() == CONTENT
        assert len(proxy.asked) == 1


async def test_a_copy_of_the_hub_is_used_when_the_environment_names_one(tmp_path: Path) -> None:
    async with hub() as copy:
        model = model_with(HubFile(url="https://huggingface.co/model.gguf"))
        environ = {"HF_ENDPOINT": copy.source.url.removesuffix("model.gguf")}
        path = await Weights(ModelFolder(tmp_path), environ=environ).ensure(model, Notices())
        assert path.read_bytes() == CONTENT


async def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.extend([says(503), says(429)])
        await impatient(tmp_path).ensure(model_with(server.source), Notices())
        assert len(server.asked) == 3


async def test_a_server_that_falls_silent_is_left_and_asked_for_the_rest(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.append(stalls_after(500_000))
        path = await impatient(tmp_path).ensure(model_with(server.source), Notices())
        assert path.read_bytes() == CONTENT
        assert server.asked[-1][0] == "bytes=500000-"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (says(404), "answered 404"),
        (says(401), "answered 401"),
        (says(500), "answered 500 Internal Server Error, 3 times in a row"),
        (gives(CONTENT[:-1]), f"offers {SIZE - 1} bytes where the model has {SIZE}"),
        (gives(CONTENT + b"x"), f"offers {SIZE + 1} bytes"),
        (gives(CONTENT + b"x", length=False), f"sent more than the {SIZE} bytes"),
        (gives(OTHER), "does not have the right SHA-256"),
        (gives(b"<html>Sign in</html>", "text/html", length=False), "perhaps a page that asks to sign in"),
        (redirects_to("/model.gguf"), "redirects without end"),
        (redirects_to("file:///etc/passwd"), "cannot be used"),
        (cut_after(10), "3 times in a row"),
    ],
)
async def test_what_a_bad_mirror_does_is_told_and_the_next_one_helps(tmp_path: Path, fault: Fault, told: str) -> None:
    async with hub() as bad, hub() as good:
        bad.faults.extend([fault] * 20)
        notices = Notices()
        path = await impatient(tmp_path).ensure(model_with(bad.source, good.source), notices)
        assert path.read_bytes() == CONTENT
        assert told in notices.all
        assert leftovers(tmp_path) == []


async def test_without_any_mirror_the_error_names_each_reason_and_what_to_do(tmp_path: Path) -> None:
    async with hub() as missing, hub() as wrong:
        missing.faults.append(says(404))
        wrong.faults.append(gives(OTHER))
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            deaf = HubFile(url=f"http://127.0.0.1:{nobody.getsockname()[1]}/m.gguf")
            model = model_with(missing.source, wrong.source, deaf)
            with pytest.raises(WeightsUnavailable) as caught:
                await impatient(tmp_path).ensure(model, Notices())
    error = caught.value
    for reason in ("answered 404", "does not have the right SHA-256", "cannot be reached"):
        assert reason in error.message
    for help_ in ("HTTPS_PROXY", "fabric models pull tiny-model", str(tmp_path / "tiny-model.gguf"), model.sha256):
        assert help_ in error.hint
    assert (error.code, error.retryable) == ("weights_unavailable", False)
    assert not (tmp_path / "tiny-model.gguf").exists()


async def test_a_mirror_that_does_not_answer_the_call_is_left_within_seconds(tmp_path: Path) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        callers = [socket.socket() for _ in range(4)]  # fill the queue: further calls are neither taken nor refused
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        deaf = HubFile(url=f"http://127.0.0.1:{full.getsockname()[1]}/m.gguf")
        async with hub() as good:
            begun = time.monotonic()
            await impatient(tmp_path).ensure(model_with(deaf, good.source), Notices())
            assert time.monotonic() - begun < 30
        for caller in callers:
            caller.close()


async def test_a_file_that_a_person_put_there_is_checked_and_used(tmp_path: Path) -> None:
    (tmp_path / "tiny-model.gguf").write_bytes(CONTENT)
    notices = Notices()
    path = await impatient(tmp_path).ensure(model_with(), notices)
    assert path.read_bytes() == CONTENT
    assert "checking" in notices.all
    again = Notices()
    await impatient(tmp_path).ensure(model_with(), again)
    assert again.texts == []


@pytest.mark.parametrize("content", [OTHER, b"", CONTENT[:-1]])
async def test_a_changed_file_is_noticed_kept_aside_and_replaced(tmp_path: Path, content: bytes) -> None:
    async with hub() as server:
        model = model_with(server.source)
        path = await impatient(tmp_path).ensure(model, Notices())
        path.write_bytes(content)
        notices = Notices()
        assert (await impatient(tmp_path).ensure(model, notices)).read_bytes() == CONTENT
        assert (tmp_path / "tiny-model.gguf.refused").read_bytes() == content
        assert "not the file it should be" in notices.all


async def test_many_who_want_the_same_model_cause_one_download_and_are_told_that_they_wait(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.append(stalls_after(1_500_000))
        model = model_with(server.source)
        notices = [Notices() for _ in range(8)]
        paths = await asyncio.gather(*(impatient(tmp_path).ensure(model, notice) for notice in notices))
        assert set(paths) == {tmp_path / "tiny-model.gguf"}
        assert len(server.asked) == 2
        waiting = [notice for notice in notices if "waiting for another process that downloads it" in notice.all]
        assert len(waiting) == 7
        assert any(re.search(r"downloads it \([456]\d %, [12] of 2 MB\)", notice.all) for notice in waiting)


async def test_cancelling_ends_at_once_and_the_next_call_goes_on(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.append(stalls_after(2_000_000))
        model = model_with(server.source)
        arrived = asyncio.Event()
        notices = Notices(heard=lambda text: arrived.set() if "connecting" in text else None)
        download = asyncio.create_task(Weights(ModelFolder(tmp_path)).ensure(model, notices))
        await asyncio.wait_for(arrived.wait(), 60)
        folder = ModelFolder(tmp_path)
        async with asyncio.timeout(60):
            while folder.begun_bytes(model) < 1_000_000:
                await asyncio.sleep(0.01)
        begun = time.monotonic()
        download.cancel()
        with pytest.raises(asyncio.CancelledError):
            await download
        assert time.monotonic() - begun < 30
        await asyncio.wait_for(server.left.wait(), 60)
        kept = folder.begun_bytes(model)
        assert kept >= 1_000_000
        assert (await impatient(tmp_path).ensure(model, Notices())).read_bytes() == CONTENT
        assert server.asked[-1] == (f"bytes={kept}-", '"v1"')


KILLED = """
import asyncio, sys
from pathlib import Path
from integration.llm.weights_mirrors import model_with
from agent_fabric.infrastructure.models.weights.catalogue import HubFile
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder
asyncio.run(Weights(ModelFolder(Path(sys.argv[2]))).ensure(model_with(HubFile(url=sys.argv[1])), lambda _: None))
"""


async def test_a_killed_process_gives_its_lock_back_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async with hub() as server:
        server.faults.append(stalls_after(2_000_000))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", KILLED, server.source.url, str(tmp_path)),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        model, folder = model_with(server.source), ModelFolder(tmp_path)
        async with asyncio.timeout(20):
            while folder.begun_bytes(model) < 1_000_000:
                await asyncio.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        kept = folder.begun_bytes(model)
        assert (await impatient(tmp_path).ensure(model, Notices())).read_bytes() == CONTENT
        assert server.asked[-1][0] == f"bytes={kept}-"


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """Be nobody for a while, if we are root, for whom nothing is forbidden."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with without_rights(), pytest.raises(WeightsUnavailable, match="Permission denied") as caught:
        await impatient(tmp_path / "models").ensure(model_with(), Notices())
    assert "FABRIC_MODELS_DIR" in caught.value.hint


async def test_a_file_in_a_folder_that_may_only_be_read_is_checked_and_used() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders cannot be entered by others
        folder = Path(name)
        (folder / "tiny-model.gguf").write_bytes(CONTENT)
        folder.chmod(0o555)
        with without_rights():
            path = await impatient(folder).ensure(model_with(), Notices())
            assert path.read_bytes() == CONTENT
        assert [file.name for file in folder.iterdir()] == ["tiny-model.gguf"]
        folder.chmod(0o700)


@pytest.mark.parametrize("address", ["nonsense", "http://[", "ftp://example.invalid"])
async def test_an_address_that_is_none_is_told(tmp_path: Path, address: str) -> None:
    model = model_with(HubFile(url="https://huggingface.co/model.gguf"))
    with pytest.raises(WeightsUnavailable, match="cannot be used"):
        await Weights(ModelFolder(tmp_path), environ={"HF_ENDPOINT": address}).ensure(model, Notices())


@dataclass(frozen=True)
class OntoFullDisk:
    """A mirror whose bytes do not fit."""

    label: str = "a mirror"
    key: str = "full"
    working_bytes: int = 0

    async def fetch(self, part: PartFile, progress: Progress) -> None:
        part.append(CONTENT[:1000])
        PartFile(Path("/dev/full"), part.total).append(CONTENT[1000:])


async def test_a_disk_that_gets_full_is_told_and_no_other_mirror_is_tried(tmp_path: Path) -> None:
    async with hub() as server:
        tried: list[str] = []

        def mirror_for(source: object, model: object) -> OntoFullDisk:
            tried.append(str(source))
            return OntoFullDisk()

        model = model_with(server.source, server.source)
        weights = Weights(ModelFolder(tmp_path), mirror_for=mirror_for)
        with pytest.raises(WeightsUnavailable, match="disk is full") as caught:
            await weights.ensure(model, Notices())
        assert "FABRIC_MODELS_DIR" in caught.value.hint
        assert len(tried) == 1
        assert weights.folder.begun_bytes(model) == 1000


async def test_a_file_system_that_takes_no_large_files_is_told(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with hub() as server:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, hard))
        try:
            with pytest.raises(WeightsUnavailable, match=os.strerror(errno.EFBIG)):
                await impatient(tmp_path).ensure(model_with(server.source), Notices())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (await impatient(tmp_path).ensure(model_with(server.source), Notices())).read_bytes() == CONTENT


async def test_a_place_that_can_be_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(WeightsUnavailable, match="cannot be kept") as caught:
        await impatient(tmp_path / "models").ensure(model_with(), Notices())
    assert "FABRIC_MODELS_DIR" in caught.value.hint


async def test_a_model_that_does_not_fit_on_the_disk_is_not_begun(tmp_path: Path) -> None:
    async with hub() as server:
        huge = replace(model_with(server.source), size_bytes=10**18)
        with pytest.raises(WeightsUnavailable, match="needs 1000000000000 MB more") as caught:
            await impatient(tmp_path).ensure(huge, Notices())
        assert "FABRIC_MODELS_DIR" in caught.value.hint
        assert server.asked == []
