"""A person opens a shell on a machine: it is approved, typed into by them alone, and recorded on both ends."""

import asyncio
import os
import pty
import sys
from base64 import b64decode
from contextlib import suppress
from pathlib import Path

import pytest

from integration.fleet.machines import PATIENCE_S, enrol, open_shell, read_until, typed, until_settled, until_status
from integration.http.served import Served, served

pytestmark = pytest.mark.slow


@pytest.mark.proves("FL-9", "FL-13")
async def test_a_shell_is_approved_typed_into_and_recorded(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        machine = await enrol(hub.client, tmp_path / "web", "web", "allow_root = true\npty_support = true\n")
        machine.start()
        try:
            assert "shell" in (await until_status(hub.client, "web", "online"))["supported_tools"]
            path = await open_shell(hub.client)
            seen = await read_until(hub.client, path, b"$ " if os.geteuid() else b"# ")
            await hub.client.post(path, json=typed("echo made-$((40+2)); exit 4\n"))
            seen = await read_until(hub.client, path, b"made-42\r\n", seen)
            settled = await until_settled(hub.client, "web", path.split("/")[6])
            assert (settled["status"], settled["result"]["exit_code"]) == ("success", 4)
            assert "made-42" in settled["result"]["stdout"]
            ended = (await hub.client.get(path, params={"offset": 0})).json()
            assert ended["exit_code"] == 4
            assert b"made-42" in b64decode(ended["data"])
            assert (await hub.client.get("/api/v1/nodes/web/audit")).json()["intact"]

            path = await open_shell(hub.client)
            await read_until(hub.client, path, b"$ " if os.geteuid() else b"# ")
            machine.kill()  # its guard ends what the shell has started
            machine.start()
            doubted = await until_settled(hub.client, "web", path.split("/")[6])
            assert doubted["status"] == "in_doubt"
            await at_the_command_line(hub, tmp_path)
        finally:
            machine.kill()


async def at_the_command_line(hub: Served, tmp_path: Path) -> None:
    """`fabric nodes shell`, in a terminal of its own; somebody else approves it."""
    await until_status(hub.client, "web", "online")
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "agent_fabric", "nodes", "shell", "web", "--server", str(hub.client.base_url)]
    environment = {**os.environ, "FABRIC_TOKEN": hub.token, "TERM": "xterm"}
    process = await asyncio.create_subprocess_exec(
        *words, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, env=environment
    )
    os.close(slave)
    os.set_blocking(master, False)
    said = b""

    async def until(text: bytes) -> None:
        nonlocal said
        async with asyncio.timeout(PATIENCE_S):
            while text not in said:
                with suppress(BlockingIOError):
                    said += os.read(master, 65_536)
                await asyncio.sleep(0.02)

    try:
        await until(b"fabric approvals approve ")
        await asyncio.sleep(0.1)
        with suppress(BlockingIOError):
            said += os.read(master, 65_536)
        approval = said.rpartition(b"fabric approvals approve ")[2].split()[0].decode()
        await hub.client.post(f"/approvals/{approval}", json={"decision": "approve"})
        await until(b"Ctrl+] ends")
        os.write(master, b"echo typed-$((1+1)); exit 5\n")
        await until(b"typed-2")
        async with asyncio.timeout(PATIENCE_S):
            while process.returncode is None:
                with suppress(OSError):
                    said += os.read(master, 65_536)
                await asyncio.sleep(0.02)
        assert process.returncode == 5, said
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(master)
