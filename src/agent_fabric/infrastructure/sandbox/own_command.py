"""Commands of the person at a terminal: no box and no policy, as in the person's own shell. No run comes here."""

import asyncio
import os


async def run_own_command(command: str) -> int:
    """Run a command line with the person's shell at this terminal; return its exit code."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    process = await asyncio.create_subprocess_exec(shell, "-c", command)
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
