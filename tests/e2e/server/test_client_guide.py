"""The programs in the guide to the Python client do what it says, against a real server."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Calls, Finish, Script, ScriptedModel
from e2e.agents.test_guides import written
from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving

PATIENCE_S = 60.0
DONE = Finish(summary="hello.py prints the first ten primes.", artifacts=[], next_steps=[], notes="")
LOOK = Call("list_files", {"path": "."})
PUSH = Call("shell", {"command": "make deploy"})


@contextlib.asynccontextmanager
async def guided(folder: Path) -> AsyncIterator[Serving]:
    written("python-client.md", folder)
    script = Script((Calls((LOOK,), text="I look."), DONE), named={"push": (PUSH, DONE)})
    async with ScriptedModel(script) as model, serving(Fabric(folder, settings(model.base_url))) as server:
        yield server


async def printed(folder: Path, server: Serving, program: str) -> str:
    """Run a program of the guide; return what it prints."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", program),
        cwd=folder,
        env={**kept, "HOME": str(folder), "FABRIC_URL": server.url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


@pytest.mark.proves("C15")
async def test_the_programs_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    async with guided(tmp_path) as server:
        first, watch = await asyncio.gather(
            printed(tmp_path, server, "first.py"), printed(tmp_path, server, "watch.py")
        )
        assert first == "completed hello.py prints the first ten primes.\n"
        assert "list_files {'path': '.'}" in watch
        assert watch.endswith("completed\n")
        await server.client.post("/run", json={"prompt": "push it [[script=push]]", "pack": "engineering"})
        answer, errors = await asyncio.gather(
            printed(tmp_path, server, "answer.py"), printed(tmp_path, server, "errors.py")
        )
        assert "shell {'command': 'make deploy'}" in answer
        assert errors == "There is no run 'no-such-run'\n"
        assert (await server.client.get("/approvals")).json()["approvals"] == []
