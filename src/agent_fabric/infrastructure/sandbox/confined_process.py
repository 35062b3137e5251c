"""Runs one of our own modules as a process that takes bytes and gives bytes: for what strangers' data may break."""

import asyncio
import sys


async def run_confined(module: str, data: bytes, *, timeout_s: float) -> bytes:
    """Return what a module writes to its standard output; what it closes behind itself is its own affair.

    It sees no environment, and it has ended when this returns or is cancelled. What it gave before a crash is returned.

    Raises:
        TimeoutError: it took too long.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", module, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env={}
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, _ = await process.communicate(data)
            return out
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
