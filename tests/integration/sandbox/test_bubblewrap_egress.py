"""The one way out of a box of level A: a proxy of ours, behind a unix socket."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from integration.sandbox.boxes import box, said
from services import need_program

need_program("bwrap", package="bubblewrap")

ASK = r"""python3 - "$http_proxy" <<'END'
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": sys.argv[1]}))
print(opener.open("http://example.test/page", timeout=10).read().decode())
END"""


class StubProxy:
    """Answers every request with its first line, and counts."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen.append(head.split(b"\r\n")[0].decode())
        body = self.seen[-1].encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


@pytest.fixture
async def proxy() -> AsyncIterator[tuple[StubProxy, Path]]:
    stub = StubProxy()
    with tempfile.TemporaryDirectory() as folder:  # short: the path of a socket may have 107 bytes
        path = Path(folder) / "proxy"
        server = await asyncio.start_unix_server(stub.answer, path)
        path.chmod(0o600)
        async with server:
            yield stub, path


@pytest.mark.proves("AF-120")
async def test_programs_reach_the_proxy_and_nothing_else(workspace: Path, proxy: tuple[StubProxy, Path]) -> None:
    stub, path = proxy
    owner = path.stat().st_uid
    async with box(workspace, egress_socket=path) as sandbox:
        assert await said(sandbox, ASK) == "GET http://example.test/page HTTP/1.1"
        many = await asyncio.gather(*(said(sandbox, ASK) for _ in range(8)))
        assert len(many) == len(stub.seen) - 1 == 8
        outcome = await sandbox.run_command("exec 3<>/dev/tcp/1.1.1.1/80", timeout_s=60)
        assert outcome.exit_code == 1
        assert b"unreachable" in outcome.stderr
    assert path.stat().st_uid == owner


async def test_the_way_out_is_there_again_after_the_box_was_made_anew(
    workspace: Path, proxy: tuple[StubProxy, Path]
) -> None:
    async with box(workspace, egress_socket=proxy[1]) as sandbox:
        await sandbox.run_command("kill -9 -1", timeout_s=60)
        assert await said(sandbox, ASK) == "GET http://example.test/page HTTP/1.1"


async def test_without_a_proxy_there_is_no_way_out_and_none_is_named(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        assert await said(sandbox, "env | grep -i _proxy= || true") == ""
        assert (await sandbox.run_command("exec 3<>/dev/tcp/127.0.0.1/3128", timeout_s=60)).exit_code == 1
