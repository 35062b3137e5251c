"""Whom `fabric` talks to: the model that was chosen, and nobody else."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.fabric_process import configure, settings

PATIENCE_S = 120.0
WATCHED = """
import os, sys
seen = os.open(os.environ["SEEN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(event, args):
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        os.write(seen, f"to {args[1]!r}\\n".encode())
    elif event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}:
        os.write(seen, f"name {args[0]!r}\\n".encode())
sys.addaudithook(note)
from agent_fabric.interfaces.cli.main import main
sys.argv = ["fabric", *sys.argv[1:]]
sys.exit(main())
"""
"""The command line in a process that notes every connection and every name that is looked up."""


async def fabric(folder: Path, *words: str) -> tuple[int, str]:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WATCHED, *words),
        cwd=folder,
        env={
            **os.environ,
            "SEEN": str(folder / "seen"),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "FABRIC_CONFIG_PATH": str(folder / "fabric.json"),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE_S):
        said, _ = await started.communicate()
    return started.returncode or 0, said.decode()


@pytest.mark.slow
async def test_a_run_connects_to_its_model_and_nothing_is_reported_to_anyone(tmp_path: Path) -> None:
    script = Script([Call("write_file", {"path": "a.txt", "content": "x\n"}), Finish(summary="done")])
    async with ScriptedModel(script) as model:
        configure(tmp_path / "fabric.json", settings(model.base_url))
        code, said = await fabric(tmp_path, "run", "write a file", "--json")
        assert code == 0, said
        assert '"completed"' in said
        for words in (("logs", "list"), ("policy", "show"), ("audit", "verify"), ("doctor",)):
            await fabric(tmp_path, *words)
        port = int(model.base_url.rpartition(":")[2].partition("/")[0])
    lines = set((tmp_path / "seen").read_text().splitlines())
    internet = {line for line in lines if line.startswith("to (")}
    assert f"to ('127.0.0.1', {port})" in internet, lines
    others = {line for line in internet if not line.startswith("to ('127.0.0.1', ")}
    names = {line for line in lines if line.startswith("name ")} - {"name '127.0.0.1'", "name 'localhost'"}
    assert (others, names) == (set(), set())
