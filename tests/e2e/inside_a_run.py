"""Starts programs as commands of a run at level C start them, and as such a command may try to hide that."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox

TESTS = Path(__file__).resolve().parents[1]
PATIENCE_S = 60.0
FABRIC = (sys.executable, "-m", "agent_fabric.interfaces.cli.main")

DISGUISES: Mapping[str, str] = {
    "as it is": "{command}",
    "without the variables of the run": "env -u FABRIC_RUN_ID -u FABRIC_COMMAND_ID {command}",
    "with an environment of its own": "env -i {variables} {command}",
    "in the place of its shell": "exec env -i {variables} {command}",
    "in a session of its own": "env -i {variables} setsid --wait {command}",
    "as a daemon": "env -i {variables} setsid --fork {command} </dev/null >daemon.out 2>&1;"
    " for _ in $(seq 300); do sleep 0.1; grep -q DONE daemon.out && break; done; cat daemon.out",
    "with the limit lowered further": "ulimit -x 5; {command}",
}
"""Ways to start a program, each harder to recognise than the one before."""


async def inside_a_run(
    folder: Path,
    *command: str,
    environment: Mapping[str, str] | None = None,
    disguise: str = "{command}",
    run_id: str = "a-run-of-ours",
) -> CommandOutcome:
    """Run a program as a command of a run at level C."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(TESTS), **(environment or {})}
    box = UnconfinedSandbox(folder, run_id, environment=variables)
    given = " ".join(shlex.quote(f"{name}={value}") for name, value in variables.items())
    line = disguise.format(command=shlex.join(command), variables=given)
    return await box.run_command(line, timeout_s=PATIENCE_S, environment=environment or {})


async def commands_inside_a_run(folder: Path, commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Run `fabric` commands as one command of a run; return the exit code and the words of each."""
    lines = [f'{shlex.join((*FABRIC, *each))} 2>&1 </dev/null; code=$?; echo; echo "=== $code"' for each in commands]
    outcome = await inside_a_run(folder, "bash", "-c", "\n".join(lines))
    said = outcome.stdout.decode().split("\n=== ")
    codes = [int(each.partition("\n")[0]) for each in said[1:]]
    words = [said[0], *(each.partition("\n")[2] for each in said[1:-1])]
    return list(zip(codes, words, strict=True))
