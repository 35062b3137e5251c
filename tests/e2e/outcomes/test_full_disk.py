"""A server whose disk is full for a while: its runs stop, and go on by themselves once there is space."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, ScriptedModel, Slow
from e2e.fabric_process import Fabric, read_lines, settings
from e2e.server_process import PATIENCE_S, Serving, in_background, serving
from services import need

DONE = Finish(summary="done", artifacts=[], next_steps=[], notes="")
ANSWER_S = 3.0
"""How long the model takes: the disk is filled meanwhile."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    need(mounted.returncode == 0, "a small disk can only be made by root with CAP_SYS_ADMIN")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as target, contextlib.suppress(OSError):
        while True:
            target.write(b"x" * 4096)


async def until_stopped(hub: Serving, count: int) -> None:
    """Wait until the server has said of so many runs that they stopped."""
    assert hub.started.process.stderr is not None
    seen = 0
    async with asyncio.timeout(PATIENCE_S):
        while seen < count:
            line = await hub.started.process.stderr.readline()
            seen += b" stopped: " in line


@pytest.mark.slow
@pytest.mark.proves("WB-13")
async def test_runs_that_a_full_disk_has_stopped_go_on_by_themselves_once_there_is_space(
    tmp_path: Path, small_disk: Path
) -> None:
    look = Call("shell", {"command": "true"})
    async with ScriptedModel([Slow(look, ANSWER_S), Slow(look, ANSWER_S), *(DONE for _ in range(6))]) as model:
        fabric = Fabric(small_disk, settings(model.base_url), home=tmp_path / "home")
        async with serving(fabric) as hub:
            for number in range(2):
                await in_background(hub, prompt=f"do {number}", pack="engineering")
            async with asyncio.timeout(PATIENCE_S):
                while len(model.requests) < 2:
                    await asyncio.sleep(0.02)
            fill(small_disk / "filler")
            await until_stopped(hub, 2)
            stuck = await hub.runs()
            (small_disk / "filler").unlink()
            async with asyncio.timeout(PATIENCE_S):
                while {run["status"] for run in await hub.runs()} != {"completed"}:
                    await asyncio.sleep(0.1)
    assert {run["status"] for run in stuck} == {"interrupted"}, "nobody drives them"
    for folder in fabric.run_dirs():
        seqs = [line["seq"] for line in read_lines(folder)]
        assert seqs == list(range(len(seqs))), "the log has no gap"
