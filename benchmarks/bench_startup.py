"""What it costs to start, in CPU milliseconds: help, commands that read, completion, a run to its first event.

    python benchmarks/bench_startup.py [--rounds 15]

Beside them the floor: the bare interpreter, and importing only what the first event needs. The first event is read from
the store of a run whose process is stopped there; its CPU is what the process had used when it was written. The prompt
of a chat is measured likewise. As where fabric is installed, Python has compiled every module before: the first round
does that, and does not count. Goals are for a quiet aarch64; `tests/architecture/test_reading_commands.py` counts what
these commands import.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

FIRST_EVENT = """
import os, sys, time
from agent_fabric.infrastructure.persistence.runs import event_store
inner = event_store.SqlRunRepository.create
async def stop_here(self, run_id, events, **more):
    held = await inner(self, run_id, events, **more)
    sys.stderr.write(str(1000 * time.process_time()))
    sys.stderr.flush()
    os._exit(0)
event_store.SqlRunRepository.create = stop_here
from agent_fabric.interfaces.cli.main import main
main(["run", "Say hello.", "--json", "--workspace", sys.argv[1]])
"""
PROMPT = """
import os, sys, time
from agent_fabric.interfaces.cli.chat.chat_loop import ChatLoop
async def stop_here(self, *_):
    sys.stderr.write(str(1000 * time.process_time()))
    sys.stderr.flush()
    os._exit(0)
ChatLoop.run = stop_here
sys.stdin.isatty = lambda: True
from agent_fabric.interfaces.cli.main import main
main(["chat", "--workspace", sys.argv[1]])
"""
READING = (
    *("run --help", "logs list", "approvals list", "sessions list", "memory list", "agents list", "workflow list"),
    *("eval list", "schedules list", "sensors list", "webhooks list", "channels list", "dead list", "whoami"),
    *("users list", "keys list", "token show", "audit list", "db status", "doctor", "models", "secrets list"),
    *("mcp list", "policy show", "config show", "cluster status"),
)
READING_GOAL_MS, START_GOAL_MS, COMPLETION_GOAL_MS = 250, 400, 150
FLOOR = "import asyncio, apsw, orjson, pydantic, typer"


def child_cpu_ms(arguments: list[str], environment: dict[str, str]) -> float:
    """Return the CPU of a child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def first_event_ms(environment: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return start(FIRST_EVENT, folder, environment)


def prompt_ms(environment: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return start(PROMPT, folder, environment)


def start(script: str, folder: str, environment: dict[str, str]) -> float:
    """Start a command in a folder up to where a script stops it; return the CPU until then."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(folder) / ".fabric")],
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "XDG_CONFIG_HOME": folder},
    )
    return float(done.stderr.splitlines()[-1])


def completion_ms(line: str, fabric: str, environment: dict[str, str]) -> float:
    """Return the CPU of completing what stands at the end of a line."""
    asked = {"_FABRIC_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    return child_cpu_ms([fabric], {**environment, **asked})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    fabric = str(Path(sys.executable).with_name("fabric"))
    home = tempfile.TemporaryDirectory()
    start(FIRST_EVENT, home.name, dict(os.environ))
    there = ["--workspace", str(Path(home.name) / ".fabric")]
    rows: dict[str, Callable[[dict[str, str]], float]] = {
        "python -c pass": lambda env: child_cpu_ms([sys.executable, "-c", "pass"], env),
        "fabric --help": lambda env: child_cpu_ms([fabric, "--help"], env),
        f"python -c '{FLOOR}'": lambda env: child_cpu_ms([sys.executable, "-c", FLOOR], env),
    }
    goals: dict[str, int] = {}
    for command in READING:
        arguments = [fabric, *command.split(), *([] if "--help" in command else there)]
        rows[f"fabric {command}"] = partial(child_cpu_ms, arguments)
        goals[f"fabric {command}"] = READING_GOAL_MS
    for line in ("fabric ", "fabric logs ", "fabric run --"):
        rows[f"completing: {line}"] = partial(completion_ms, line, fabric)
        goals[f"completing: {line}"] = COMPLETION_GOAL_MS
    rows |= {"fabric run, to its first event": first_event_ms, "fabric chat, to its prompt": prompt_ms}
    goals |= dict.fromkeys(("fabric run, to its first event", "fabric chat, to its prompt"), START_GOAL_MS)
    measured: dict[str, list[float]] = {name: [] for name in rows}
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        for number in range(rounds + 1):
            for name, measure in rows.items():
                figure = measure(environment)
                if number:
                    measured[name].append(figure)
    home.cleanup()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}, {rounds} rounds")
    print("| what | CPU ms, median | best | goal |")
    print("|---|--:|--:|--:|")
    for name, values in measured.items():
        goal = f"≤ {goals[name]}" if name in goals else ""
        print(f"| `{name}` | {statistics.median(values):.0f} | {min(values):.0f} | {goal} |")


if __name__ == "__main__":
    main()
