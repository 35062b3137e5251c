"""Starts the worker of a drill as a process of its own. It is the only process that a drill ever kills."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId

MODULE: Final = "agent_fabric.interfaces.cli.cluster.drill_worker"
START_TIMEOUT_S: Final = 60.0
END_TIMEOUT_S: Final = 10.0
_MAX_PROBLEM_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True)
class DrillProcess:
    """DrillWorker as a child of this process."""

    process: asyncio.subprocess.Process
    worker_id: str
    run_id: RunId

    @property
    def pid(self) -> int:
        return self.process.pid

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@asynccontextmanager
async def start_drill_worker(root: Path) -> AsyncIterator[DrillProcess]:
    """Start a worker for a fabric folder that begins with the run of a drill, and end it at the latest when we leave.

    Raises:
        FabricError: it did not start.
    """
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = (sys.executable, "-m", MODULE, str(root))
    process = await asyncio.create_subprocess_exec(*command, stdin=nothing, stdout=pipe, stderr=pipe)
    try:
        yield await _join(process)
    finally:
        if process.returncode is None:
            process.kill()
        async with asyncio.timeout(END_TIMEOUT_S):
            await process.communicate()


async def _join(process: asyncio.subprocess.Process) -> DrillProcess:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    try:
        told = json.loads(line)
        return DrillProcess(process, str(told["worker_id"]), RunId(told["run_id"]))
    except (ValueError, KeyError):
        raise FabricError(
            f"The worker of the drill did not start: {await _problem(process)}",
            hint="Does `fabric worker` start here? `fabric doctor` says more.",
        ) from None


async def _problem(process: asyncio.subprocess.Process) -> str:
    if process.returncode is None:
        process.kill()
    async with asyncio.timeout(END_TIMEOUT_S):
        _, err = await process.communicate()
    return err.decode(errors="replace")[-_MAX_PROBLEM_CHARS:].strip() or "it said nothing"
