"""What tests of level A share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox


@asynccontextmanager
async def box(workspace: Path, **options: Any) -> AsyncIterator[BubblewrapSandbox]:
    """Give a box that is closed at the end."""
    sandbox = BubblewrapSandbox(workspace, options.pop("run_id", "test-run"), **options)
    try:
        yield sandbox
    finally:
        await sandbox.aclose()


async def said(sandbox: BubblewrapSandbox, command: str, timeout_s: float = 30) -> str:
    """Return what a command that must succeed prints."""
    outcome = await sandbox.run_command(command, timeout_s=timeout_s)
    assert outcome.exit_code == 0, outcome
    return outcome.stdout.decode().strip()
