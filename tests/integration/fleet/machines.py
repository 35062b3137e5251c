"""Real nodes as processes, for tests: the program of a machine, its folder, and its end by kill -9."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from agent_fabric.domain.fleet.protocol import CHUNK_BYTES

PATIENCE_S = 60.0
OPEN = 'profile = "open"\nallow_root = true\n'
"""A floor that asks for nothing, for commands that leave a trace."""
ASKING = "allow_root = true\n"


@dataclass
class Machine:
    """A node's folder, and its process if it runs."""

    folder: Path
    node_id: str
    name: str
    process: "subprocess.Popen[bytes] | None" = None
    log: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Start the program; it is a plain process, whose end nobody waits for."""
        log = (self.folder / "log").open("ab")
        words = [sys.executable, "-m", "agent_fabric.interfaces.node.main", "run", "--dir", str(self.folder)]
        self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        log.close()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it without a warning."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_S)
            self.process = None

    def told(self) -> str:
        """Return what it has logged."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""


async def enrol(client: httpx2.AsyncClient, folder: Path, name: str, floor: str = ASKING, **invite: Any) -> Machine:
    """Invite a machine and let it join."""
    invited = await client.post("/api/v1/nodes/invites", json={"name": name, **invite})
    assert invited.status_code == 201, invited.text
    made = invited.json()
    words = [sys.executable, "-m", "agent_fabric.interfaces.node.main", "join", made["url"], "--dir", str(folder)]
    words += ["--token", made["token"], "--hub-key", made["hub_key"]]
    joining = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(joining.communicate(), PATIENCE_S)
    assert joining.returncode == 0, out.decode()
    (folder / "node.toml").write_text(floor)
    found = (await client.get(f"/api/v1/nodes/{name}")).json()
    return Machine(folder, found["id"], name)


async def until_status(client: httpx2.AsyncClient, name: str, status: str, *, after: int = -1) -> dict[str, Any]:
    """Wait until a node has a status, with a connection after the one that has this number.

    Where servers share a store, a killed one leaves its nodes online, until they are back.
    """
    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while found.get("status") != status or found["generation"] <= after:
                found = (await client.get(f"/api/v1/nodes/{name}")).json()
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{name} is not {status}: {found}") from None
    return found


async def until_settled(client: httpx2.AsyncClient, name: str, execution_id: str) -> dict[str, Any]:
    """Wait until a command is settled."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found: dict[str, Any] = (await client.get(f"/api/v1/nodes/{name}/commands/{execution_id}")).json()
            if found["status"] not in {"waiting", "queued", "sent"}:
                return found
            await asyncio.sleep(0.02)


async def execute(client: httpx2.AsyncClient, name: str, command: str, **more: Any) -> httpx2.Response:
    """Run a command on a node."""
    arguments = {"command": command, **more.pop("arguments", {})}
    body = {"tool_name": "run_command", "arguments": arguments, **more}
    return await client.post(f"/api/v1/nodes/{name}/execute", json=body)


async def approved(client: httpx2.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """Run a tool that asks on the node `web`, approve it, and return what came of it."""
    asked = await client.post("/api/v1/nodes/web/execute", json=body)
    assert asked.status_code == 202, asked.text
    answer = await client.post(f"/approvals/{asked.json()['approval_id']}", json={"decision": "approve"})
    assert answer.status_code == 200, answer.text
    return await until_settled(client, "web", asked.json()["execution_id"])


async def put_and_get(client: httpx2.AsyncClient, root: Path) -> None:
    """Copy a file to the node `web` and back."""
    content = os.urandom(CHUNK_BYTES + 100)
    wish = {"path": str(root / "a.bin"), "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    opened = await approved(client, {"tool_name": "file_put", "arguments": wish})
    assert opened["status"] == "success", opened
    path = f"/api/v1/nodes/web/commands/{opened['execution_id']}/file"
    for offset in (0, CHUNK_BYTES):
        data = b64encode(content[offset : offset + CHUNK_BYTES]).decode()
        told = (await client.post(path, json={"offset": offset, "data": data})).json()
    assert told == {"offset": len(content), "done": True}
    assert (root / "a.bin").read_bytes() == content
    again = await client.post(path, json={"offset": 0, "data": ""})
    assert again.status_code == 422

    body = {"tool_name": "file_get", "arguments": {"path": str(root / "a.bin")}}
    got = (await client.post("/api/v1/nodes/web/execute", json=body)).json()
    assert got["result"]["output"]["sha256"] == wish["sha256"]
    path = f"/api/v1/nodes/web/commands/{got['execution_id']}/file"
    parts = [(await client.get(path, params={"offset": offset})).json() for offset in (0, CHUNK_BYTES)]
    assert b"".join(b64decode(part["data"]) for part in parts) == content


async def open_shell(client: httpx2.AsyncClient, **arguments: Any) -> str:
    """Ask for a shell on the node `web`, approve it, and return the path of its terminal."""
    asked = await client.post("/api/v1/nodes/web/execute", json={"tool_name": "shell", "arguments": arguments})
    assert asked.status_code == 202, asked.text
    path = f"/api/v1/nodes/web/commands/{asked.json()['execution_id']}/terminal"
    early = (await client.get(path, params={"wait_s": 0})).json()
    assert (early["status"], early["data"]) == ("waiting", "")
    assert (await client.post(path, json={"data": ""})).status_code == 422
    answer = await client.post(f"/approvals/{asked.json()['approval_id']}", json={"decision": "approve"})
    assert answer.status_code == 200, answer.text
    return path


async def read_until(client: httpx2.AsyncClient, path: str, text: bytes, seen: bytes = b"") -> bytes:
    """Read a terminal until it shows a text; return all that it has shown."""
    async with asyncio.timeout(PATIENCE_S):
        while text not in seen:
            told = (await client.get(path, params={"offset": len(seen)})).json()
            seen += b64decode(told["data"])
    return seen


def typed(text: str) -> dict[str, str]:
    """Return what is sent when somebody types a text into a terminal."""
    return {"data": b64encode(text.encode()).decode()}
