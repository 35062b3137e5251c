"""`fabric nodes cp`: which of both is on a machine, and how a file gets there and back."""

import hashlib
from base64 import b64decode, b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.domain.errors import NodeUnavailable
from agent_fabric.domain.fleet.protocol import CHUNK_BYTES
from agent_fabric.interfaces.cli.fleet.node_files import RemotePath, _get, _put, remote_path
from agent_fabric.interfaces.cli.main import COMPLETED, WAITING

WEB = RemotePath("web-1", "/srv/a")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("web-1:/srv/a", WEB),
        ("web-1:/srv/a:b", RemotePath("web-1", "/srv/a:b")),
        ("a/b:/c", None),
        ("./web-1:/srv/a", None),
        ("web-1:srv", None),
        ("plain", None),
        (":/srv", None),
    ],
)
def test_a_machine_is_named_before_a_colon(text: str, found: RemotePath | None) -> None:
    assert remote_path(text) == found


class StubHub:
    """A hub with one machine whose files are bytes."""

    def __init__(self, content: bytes = b"", *, asks: bool = False) -> None:
        self.content = content
        self.asks = asks
        self.commands: list[dict[str, Any]] = []
        self.sent: list[int] = []

    @property
    def client(self) -> FabricClient:
        async def commands(_: str, **__: Any) -> Any:
            return self.commands

        async def execute(_: str, wish: Any, **__: Any) -> Any:
            if self.asks:
                return {"execution_id": "e1", "status": "waiting", "approval_id": "a1"}
            digest = hashlib.sha256(self.content).hexdigest()
            output = {"offset": len(self.content), "size": len(self.content), "sha256": digest}
            return {"execution_id": "execution-1", "status": "success", "result": {"output": output}, **wish}

        async def write_file(_: str, __: str, *, offset: int, data: str) -> Any:
            self.sent.append(offset)
            if offset == len(self.content):
                self.content += b64decode(data)
            return {"offset": len(self.content), "done": len(self.content) >= 2 * CHUNK_BYTES}

        async def read_file(_: str, __: str, *, offset: int) -> Any:
            data = self.content[offset : offset + CHUNK_BYTES]
            return {"offset": offset, "size": len(self.content), "data": b64encode(data).decode()}

        nodes = SimpleNamespace(commands=commands, execute=execute, write_file=write_file, read_file=read_file)
        return cast("FabricClient", SimpleNamespace(nodes=nodes))


async def test_a_file_goes_on_where_it_stopped(tmp_path: Path) -> None:
    content = b"x" * CHUNK_BYTES + b"y" * CHUNK_BYTES
    (tmp_path / "a").write_bytes(content)
    hub = StubHub(content[:CHUNK_BYTES])
    assert await _put(hub.client, tmp_path / "a", WEB) == COMPLETED
    assert (hub.content, hub.sent) == (content, [CHUNK_BYTES])


async def test_writing_waits_for_a_person_and_then_uses_the_approval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"z" * (2 * CHUNK_BYTES)
    (tmp_path / "a").write_bytes(content)
    hub = StubHub(asks=True)
    assert await _put(hub.client, tmp_path / "a", WEB) == WAITING
    assert "approve a1" in capsys.readouterr().err
    arguments = {"path": WEB.path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    approved = {"execution_id": "e1", "tool_name": "file_put", "arguments": arguments, "status": "success"}
    hub.commands = [{**approved, "result": {"output": {"offset": 0}}}]
    assert await _put(hub.client, tmp_path / "a", WEB) == COMPLETED
    assert hub.content == content


async def test_a_file_is_fetched_whole_or_not_at_all(tmp_path: Path) -> None:
    hub = StubHub(b"a" * (CHUNK_BYTES + 5))
    assert await _get(hub.client, WEB, tmp_path / "b") == COMPLETED
    assert (tmp_path / "b").read_bytes() == hub.content

    class Changing(StubHub):
        @property
        def client(self) -> FabricClient:
            found = super().client

            async def read_file(_: str, __: str, *, offset: int) -> Any:
                return {"offset": offset, "size": 3, "data": b64encode(b"xyz").decode()}

            cast("Any", found.nodes).read_file = read_file
            return found

    with pytest.raises(NodeUnavailable, match="did not arrive"):
        await _get(Changing(b"abc").client, WEB, tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]
