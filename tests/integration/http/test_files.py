"""`GET /runs/{id}/files` on the real server: what a run made can be fetched, and nothing else."""

import asyncio
import os
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from agent_fabric.client import FabricClient, ServerUnreachable
from agent_fabric.domain.errors import ConfigError, RunFileNotFound, RunFilesWithheld
from agent_fabric.domain.runs.files import MAX_FILES
from agent_fabric.testing.scripted_model import Call, Script
from changes_project import Project
from integration.http.served import DONE, PATIENCE_S, Served, bearer, served, task

WRITE = Call("write_file", {"path": "out/made.txt", "content": "made\n"})
HUGE_BYTES = 100_000_000
NO_FILES = (
    "../runlog.jsonl",
    "out/../../runlog.jsonl",
    "%2e%2e/runlog.jsonl",
    "%2e%2e%2frunlog.jsonl",
    "..%2f..%2f..%2ffabric.db",
    "out/%2e%2e/out/made.txt",
    "/etc/hostname",
    "%2fetc%2fhostname",
    "./out/made.txt",
    "out//made.txt",
    "out/made.txt/",
    "out/made.txt/more",
    "out",
    "out/",
    "",
    "%00",
    "out/made.txt%00.png",
    "%ff%fe",
    "nothing",
    "a" * 300,
    "a/" * 3_000 + "a",
    "C:%5cwindows",
)


class Made:
    """A server with one run that has ended, and where its files are."""

    def __init__(self, server: Served, run_id: str, folder: Path) -> None:
        self.server = server
        self.run_id = run_id
        self.folder = folder

    async def listed(self) -> Any:
        answer = await self.server.client.get(f"/runs/{self.run_id}/files")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def names(self) -> list[str]:
        return [one["path"] for one in (await self.listed())["files"]]

    async def fetch(self, path: str) -> httpx2.Response:
        return await self.server.client.get(f"/runs/{self.run_id}/files/{path}")

    async def raw(self, path: str) -> tuple[int, bytes]:
        """Ask for a path as it is, untouched by a client that tidies addresses."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        (credential,) = bearer(self.server.token).values()
        head = f"GET /runs/{self.run_id}/files/{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n"
        writer.write(f"{head}Authorization: {credential}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Made]:
    async with served(tmp_path, Script(turns=(WRITE, DONE))) as server:
        run_id = (await server.client.post("/run", json=task())).json()["_meta"]["run_id"]
        yield Made(server, run_id, tmp_path / ".fabric" / "runs" / run_id / "workspace")


async def test_what_a_run_made_is_listed_and_fetched(made: Made) -> None:
    listed = await made.listed()
    (one,) = listed["files"]
    assert (listed["run_id"], listed["truncated"]) == (made.run_id, False)
    assert (one["path"], one["bytes"]) == ("out/made.txt", 5)
    assert one["modified_at"] == (made.folder / "out/made.txt").stat().st_mtime
    answer = await made.fetch("out/made.txt")
    assert (answer.status_code, answer.content) == (200, b"made\n")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == "5"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''made.txt"
    below = await made.server.client.get(f"/api/v1/runs/{made.run_id[:8]}/files/out/made.txt")
    assert below.content == b"made\n"


async def test_a_page_is_never_sent_as_one_and_any_name_comes_back_whole(made: Made) -> None:
    for name in ("größe – 100%.html", "a b?#&.txt", "…", "...", 'quo"te.txt', "50%2F.txt"):
        (made.folder / name).write_text(f"<script>{name}")
        assert name in await made.names()
        answer = await made.server.client.get(f"/runs/{made.run_id}/files/{quote(name, safe='')}")
        assert (answer.status_code, answer.text) == (200, f"<script>{name}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(name, safe='')}"


async def test_nothing_but_a_file_in_the_workspace_has_a_path(made: Made) -> None:
    for path in NO_FILES:
        status, body = await made.raw(path)
        assert status == 404, path
        assert b'"code": "run_file_not_found"' in body, path
        assert str(made.folder).encode() not in body


async def test_an_absolute_path_does_not_tell_where_the_workspace_lies(made: Made) -> None:
    for path in (str(made.folder / "out/made.txt"), f"%2f{str(made.folder)[1:]}/out/made.txt"):
        assert (await made.raw(path))[0] == 404


async def test_links_pipes_and_folders_are_neither_listed_nor_fetched(made: Made, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (made.folder / "out-link").symlink_to(tmp_path / "secret")
    (made.folder / "climbing").symlink_to("../../../../secret")
    (made.folder / "folder-link").symlink_to(tmp_path)
    (made.folder / "inside").symlink_to("out/made.txt")
    (made.folder / "inside-folder").symlink_to("out")
    os.mkfifo(made.folder / "pipe")
    assert await made.names() == ["out/made.txt"]
    for path in ("out-link", "climbing", "folder-link/secret", "inside", "inside-folder/made.txt", "pipe", "out"):
        answer = await made.fetch(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "run_file_not_found"), path


async def test_what_runs_do_not_see_or_may_not_write_is_not_handed_out(made: Made) -> None:
    hidden = (".fabric/token", ".FABRIC/token", "deep/.fabric/x", ".git/config", ".envrc", ".vscode/tasks.json")
    for path in (*hidden, "seen/.hidden"):
        (made.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (made.folder / path).write_text("x")
    assert await made.names() == ["out/made.txt", "seen/.hidden"]
    for path in hidden:
        assert (await made.fetch(path)).status_code == 404, path


async def test_a_long_list_is_cut_and_says_so(made: Made) -> None:
    for number in range(MAX_FILES):
        (made.folder / f"{number:05}").touch()
    listed = await made.listed()
    assert "out/made.txt" not in [one["path"] for one in listed["files"]]
    assert (len(listed["files"]), listed["truncated"]) == (MAX_FILES, True)
    assert (await made.fetch("out/made.txt")).status_code == 200


async def test_a_name_that_is_no_text_does_not_spoil_the_list(made: Made) -> None:
    Path(os.fsdecode(os.fsencode(made.folder) + b"/\xff\xfe")).touch()
    assert await made.names() == ["out/made.txt"]


async def test_a_huge_file_is_streamed_and_one_that_vanishes_meanwhile_still_comes_whole(made: Made) -> None:
    with (made.folder / "huge").open("wb") as file:
        file.truncate(HUGE_BYTES)
    size = 0
    tracemalloc.start()
    try:
        async with made.server.client.stream("GET", f"/runs/{made.run_id}/files/huge") as answer:
            assert answer.headers["content-length"] == str(HUGE_BYTES)
            (made.folder / "huge").unlink()
            async for piece in answer.aiter_raw():
                size += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == HUGE_BYTES
    assert peak < 20_000_000
    assert (await made.fetch("huge")).status_code == 404


async def test_who_leaves_in_the_middle_leaves_no_file_open(made: Made) -> None:
    with (made.folder / "huge").open("wb") as file:
        file.truncate(HUGE_BYTES)
    for _ in range(5):
        async with made.server.client.stream("GET", f"/runs/{made.run_id}/files/huge") as answer:
            assert answer.status_code == 200
    async with asyncio.timeout(PATIENCE_S):
        while any(target.endswith("/huge") for target in _open_files()):
            await asyncio.sleep(0.02)


async def test_a_file_that_grows_or_shrinks_meanwhile_is_never_taken_for_a_whole_one(made: Made) -> None:
    log = made.folder / "log"
    log.write_bytes(b"x" * 10_000_000)
    async with made.server.client.stream("GET", f"/runs/{made.run_id}/files/log") as answer:
        with log.open("ab") as more:
            more.write(b"y" * 1_000)
        got = b"".join([piece async for piece in answer.aiter_raw()])
    assert got == b"x" * 10_000_000
    async with FabricClient(str(made.server.client.base_url), token=made.server.token) as client:
        pieces = client.runs.content(made.run_id, "log")
        await anext(pieces)
        os.truncate(log, 10)
        with pytest.raises(ServerUnreachable, match="broke"):
            async for _ in pieces:
                pass


async def test_a_project_folder_is_not_handed_out_and_a_workspace_may_be_gone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    async with project.run() as run_id:
        (tmp_path / "made.txt").write_text("x")
    async with served(tmp_path, Script(turns=(WRITE, DONE))) as server:
        for path in ("", "/mine.txt", "/made.txt"):
            answer = await server.client.get(f"/runs/{run_id}/files{path}")
            assert (answer.status_code, answer.json()["code"]) == (409, "run_files_withheld")
            assert f"/runs/{run_id}/diff" in answer.json()["hint"]
            assert "mine" not in answer.text.replace("/mine.txt", "")
        other = (await server.client.post("/run", json=task())).json()["_meta"]["run_id"]
        workspace = tmp_path / ".fabric" / "runs" / other / "workspace"
        workspace.rename(tmp_path / "moved")
        gone = await server.client.get(f"/runs/{other}/files")
        assert (gone.status_code, gone.json()["code"]) == (409, "run_files_withheld")
        workspace.symlink_to(tmp_path / "moved")
        assert (await server.client.get(f"/runs/{other}/files/out/made.txt")).status_code == 409
        assert (await server.client.get("/runs/nobody/files")).status_code == 404
        assert (await server.client.get("/runs/nobody/files/x")).json()["code"] == "run_not_found"
    project.records.close()


async def test_nobody_gets_files_without_credentials(made: Made) -> None:
    async with httpx2.AsyncClient(base_url=made.server.client.base_url) as stranger:
        assert (await stranger.get(f"/runs/{made.run_id}/files")).status_code == 401
        assert (await stranger.get(f"/runs/{made.run_id}/files/out/made.txt")).status_code == 401


async def test_the_client_lists_and_saves_files_whole_or_not_at_all(made: Made, tmp_path: Path) -> None:
    (made.folder / "größe %.bin").write_bytes(bytes(range(256)) * 4_096)
    async with FabricClient(str(made.server.client.base_url), token=made.server.token) as client:
        found = await client.runs.files(made.run_id)
        assert [(one.path, one.size) for one in found.files] == [("größe %.bin", 1_048_576), ("out/made.txt", 5)]
        target = tmp_path / "got"
        assert await client.runs.download(made.run_id, "größe %.bin", target) == 1_048_576
        assert target.read_bytes() == bytes(range(256)) * 4_096
        with pytest.raises(ConfigError, match="exists already"):
            await client.runs.download(made.run_id, "out/made.txt", target)
        assert target.stat().st_size == 1_048_576
        assert await client.runs.download(made.run_id, "out/made.txt", target, overwrite=True) == 5
        for path in ("../runlog.jsonl", "nothing", "", "/etc/hostname"):
            with pytest.raises(RunFileNotFound):
                await client.runs.download(made.run_id, path, tmp_path / "not")
        with pytest.raises(ConfigError, match="cannot be written"):
            await client.runs.download(made.run_id, "out/made.txt", tmp_path / "missing" / "not")
        made.folder.rename(tmp_path / "moved")
        with pytest.raises(RunFilesWithheld):
            await client.runs.files(made.run_id)
    assert target.read_bytes() == b"made\n"
    assert not [one for one in tmp_path.iterdir() if one.suffix == ".part" or one.name == "not"]


async def test_the_command_line_lists_prints_and_saves_here_and_at_a_server(made: Made, tmp_path: Path) -> None:
    here = made.server.command
    url, shown = str(made.server.client.base_url), {"FABRIC_TOKEN": made.server.token}
    for nth, command in enumerate((here, replace(here, server=url, environment=shown))):
        assert (await command("files", made.run_id[:8], "--json")).json == await made.listed()
        assert (await command("files", made.run_id, "out/made.txt")).out == "made\n"
        target = tmp_path / f"saved-{nth}"
        save = ("files", made.run_id, "out/made.txt", "--output", str(target))
        assert (await command(*save)).code == 0
        assert target.read_text() == "made\n"
        missing = await command("files", made.run_id, "nothing")
        assert missing.code == 1
        assert "no file 'nothing'" in missing.err
    assert (await here("files", made.run_id)).out == "5 B  out/made.txt\n"
    target.write_text("mine")
    assert (await here(*save)).code == 2
    assert target.read_text() == "mine"
    assert (await here(*save, "--force")).code == 0
    assert target.read_text() == "made\n"
    assert (await here("files", made.run_id, "--force")).code == 2


def _open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115 - as above
        except OSError:
            continue
    return found
