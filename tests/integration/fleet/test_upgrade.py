"""A node is upgraded by a signed release, and is the old one again when the new program does not work."""

import asyncio
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agent_fabric import __version__
from agent_fabric.bootstrap import fleet as bootstrap
from agent_fabric.domain.fleet.releases import Release
from agent_fabric.infrastructure.fleet.node_archive import NodeArchive, node_archive
from agent_fabric.infrastructure.fleet.signing import SigningKey
from integration.fleet.machines import Machine, enrol, execute, until_status
from integration.http.served import Served, served

pytestmark = pytest.mark.slow

KEY, OTHER = SigningKey.of(bytes(range(32))), SigningKey.of(bytes(32))
PATIENCE_S = 60.0
BROKEN = "import sys\nsys.exit('this release is broken')\n"


def another(name: str, main: str = "") -> NodeArchive:
    """Return an archive with other bytes; with `main`, one that does something else."""
    data = node_archive().data
    if main:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("__main__.py", main)
        data = buffer.getvalue()
    else:
        buffer = io.BytesIO(data)
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.comment = name.encode()
        data = buffer.getvalue()
    return NodeArchive(data, hashlib.sha256(data).hexdigest())


class ArchiveMachine(Machine):
    """A node that runs from an archive, as on a real machine."""

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        words = [sys.executable, "-I", str(self.folder / "fabric-node.pyz"), "run", "--dir", str(self.folder)]
        self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        log.close()

    @property
    def program(self) -> str:
        return hashlib.sha256((self.folder / "fabric-node.pyz").read_bytes()).hexdigest()


def release(archive: NodeArchive, released_at: int, key: SigningKey = KEY, version: str = "9.9") -> dict[str, Any]:
    made = Release(version=version, sha256=archive.sha256, released_at=released_at)
    return {**made.plain(), "signature": key.sign(made.message)}


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[NodeArchive]:
    """What the hub offers; the last one counts."""
    archives = [node_archive()]
    monkeypatch.setattr(bootstrap, "node_archive", lambda: archives[-1])
    return archives


async def upgraded(hub: Served, signed: dict[str, Any]) -> str:
    """Roll an upgrade out to the machine; return how it ended there."""
    wish = {"selector": "web", "tool_name": "upgrade", "arguments": signed}
    frozen = await hub.client.post("/api/v1/fleet/plans", json=wish)
    assert frozen.status_code == 201, frozen.text
    path = f"/api/v1/fleet/plans/{frozen.json()['id']}"
    asked = (await hub.client.post(f"{path}/apply")).json()
    await hub.client.post(f"/approvals/{asked['approval_id']}", json={"decision": "approve"})
    async with asyncio.timeout(PATIENCE_S):
        while not (found := (await hub.client.get(path)).json())["outcomes"]:
            await asyncio.sleep(0.05)
    return str(found["outcomes"]["web"])


async def said(hub: Served) -> str:
    newest = (await hub.client.get("/api/v1/nodes/web/commands?limit=1")).json()["commands"][0]
    return str((newest["result"] or {}).get("error", ""))


@pytest.mark.proves("FL-29", "FL-19")
async def test_a_node_becomes_a_signed_release_and_stays_itself_when_that_does_not_work(
    tmp_path: Path, offered: list[NodeArchive]
) -> None:
    async with served(tmp_path) as hub:
        floor = f'allow_root = true\nrelease_keys = ["{KEY.public}"]\n'
        joined = await enrol(hub.client, tmp_path / "web", "web", floor)
        machine = ArchiveMachine(joined.folder, joined.node_id, joined.name)
        (machine.folder / "fabric-node.pyz").write_bytes(another("old").data)
        machine.start()
        try:
            found = await until_status(hub.client, "web", "online")
            assert "upgrade" in found["supported_tools"]
            assert found["reported"]["program"] == another("old").sha256

            forged = release(offered[-1], 1_000, OTHER)
            assert await upgraded(hub, forged) == "error"
            assert "no release key" in await said(hub)
            assert await upgraded(hub, release(offered[-1], 1_000, version="0.0.1")) == "error"
            assert "version 0.0.1, and this node runs" in await said(hub)  # although it was never upgraded

            assert await upgraded(hub, release(offered[-1], 1_000, version=__version__)) == "error"
            assert "another build of" in await said(hub)  # whoever replays an old release of the same version

            assert await upgraded(hub, release(offered[-1], 1_000)) == "success"
            assert machine.program == node_archive().sha256
            found = await until_status(hub.client, "web", "online")
            assert found["reported"]["program"] == node_archive().sha256
            assert (await execute(hub.client, "web", "uname -s")).json()["result"]["stdout"] == "Linux\n"
            assert machine.process is not None
            assert machine.process.poll() is None  # it is the same process for whoever watches it

            offered.append(another("broken", BROKEN))
            assert await upgraded(hub, release(offered[-1], 2_000)) == "error"
            assert "this release is broken" in await said(hub)
            await until_status(hub.client, "web", "online")
            assert machine.program == node_archive().sha256

            offered.append(another("older"))
            assert await upgraded(hub, release(offered[-1], 999)) == "error"
            assert "older than one" in await said(hub)
            assert (await hub.client.get("/api/v1/nodes/web/audit")).json()["intact"]
            wrong = {"selector": "web", "tool_name": "upgrade", "arguments": release(node_archive(), 3_000)}
            assert (await hub.client.post("/api/v1/fleet/plans", json=wrong)).status_code == 422
        finally:
            machine.kill()
