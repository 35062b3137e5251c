"""What a box costs: the command `true`, cold (a new box each time) and warm, beside a plain bash without any box.

    python benchmarks/bench_sandbox.py [--rounds 200] [--cold-rounds 40]

They are measured in turns, so that a busy machine treats them alike; the best of each is what it costs where nothing
else runs. Milliseconds, as the caller waits. The floor of a cold box is the start of the interpreter that serves its
commands; as root, of a second one, which gives root up before.
"""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox


async def start(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    await process.communicate()


async def plain() -> None:
    await start("bash", "--noprofile", "--norc", "-c", "true")


async def floor() -> None:
    for _ in range(2 if os.getuid() == 0 else 1):
        await start(os.path.realpath(sys.executable), "-I", "-S", "-c", "pass")


async def cold(workspace: Path) -> None:
    sandbox = BubblewrapSandbox(workspace, "bench-cold")
    await sandbox.run_command("true", timeout_s=10)
    # Ending the box is not part of what the command's caller waits for.
    left.append(sandbox)


left: list[BubblewrapSandbox] = []


async def timed_ms(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    elapsed = 1000 * (time.perf_counter() - begun)
    while left:
        await left.pop().aclose()
    return elapsed


async def measure(rounds: int, cold_rounds: int) -> dict[str, list[float]]:
    names = ("plain bash", "level C", "level A, warm", "interpreter(s)", "level A, cold")
    figures: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        unconfined, warm = UnconfinedSandbox(workspace, "bench"), BubblewrapSandbox(workspace, "bench")
        await warm.run_command("true", timeout_s=10)
        for nth in range(rounds):
            figures["plain bash"].append(await timed_ms(plain))
            figures["level C"].append(await timed_ms(lambda: unconfined.run_command("true", timeout_s=10)))
            figures["level A, warm"].append(await timed_ms(lambda: warm.run_command("true", timeout_s=10)))
            if nth < cold_rounds:
                figures["interpreter(s)"].append(await timed_ms(floor))
                figures["level A, cold"].append(await timed_ms(lambda: cold(workspace)))
        await warm.aclose()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--cold-rounds", type=int, default=40)
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.rounds, arguments.cold_rounds))
    who = "root" if os.getuid() == 0 else "a user"
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, as {who}")
    print(f"{'':16}{'best':>8}{'p50':>8}{'p95':>8}  ms")
    for name, values in figures.items():
        p95 = statistics.quantiles(values, n=20)[-1]
        print(f"{name:16}{min(values):8.1f}{statistics.median(values):8.1f}{p95:8.1f}")


if __name__ == "__main__":
    main()
