"""Real nodes as processes, for tests: the program of a machine, its folder, and its end by kill -9."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

PATIENCE_S = 30.0
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
    made = (await client.post("/api/v1/nodes/invites", json={"name": name, **invite})).json()
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


async def until_status(client: httpx2.AsyncClient, name: str, status: str) -> dict[str, Any]:
    """Wait until a node has a status."""
    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while found.get("status") != status:
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


def processes_with(word: str) -> list[int]:
    """Return processes whose command line has a word."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                if word.encode() in (each / "cmdline").read_bytes():
                    found.append(int(each.name))
            except OSError:
                continue
    return found
