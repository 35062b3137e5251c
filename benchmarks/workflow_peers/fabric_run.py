"""Our workflows through the real engine: synchronous commits, hash chain, runlog.jsonl, run index, policy.

    python -m workflow_peers.fabric_run pure|effect [--profile FILE]

`pure`: every step is a `transform`. `effect`: every step is an action of an installed package, called through the tool
gateway; `workflow_peers.actions` is that package.
"""

import argparse
import asyncio
import sys
from functools import cache
from pathlib import Path
from typing import Any

from agent_fabric.bootstrap.local import build_local
from agent_fabric.config.loader import read_config
from agent_fabric.domain.runs.task import Budget, FrozenWorkflow, Profile, RunStatus, Task
from workflow_peers.jobs import CHAIN, Job, serve

MAX_AT_ONCE = 32
"""As many steps of one run as a definition may allow."""
ACTIONS = {"pure": "transform", "effect": "add-one"}
ENTRY_POINTS = "[agent_fabric.actions]\nadd-one = workflow_peers.actions:add_one\n"


class Fabric:
    def __init__(self, folder: Path, action: str) -> None:
        install_action(folder / "packages")
        self._action = action
        self._runner = asyncio.Runner()
        self._fabric = build_local(folder / ".fabric", read_config({}))

    def do(self, job: Job) -> int:
        return self._runner.run(self._do(job))

    async def _do(self, job: Job) -> int:
        task, done = task_for(*job.graph, self._action), 0
        todo = iter(range(job.runs))

        async def worker() -> None:
            nonlocal done
            for _ in todo:
                result = await self._fabric.execute_task(task)
                if result.status is not RunStatus.COMPLETED:
                    raise SystemExit(f"the run {result.run_id} is {result.status}: {result.error}")
                done += steps_taken(result.payload, chain=job.shape == CHAIN)

        await asyncio.gather(*(worker() for _ in range(job.at_once)))
        return done


def install_action(folder: Path) -> None:
    """Make the action known as an installed package does."""
    info = folder / "workflow_peers-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: workflow-peers\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    sys.path.append(str(folder))


@cache
def task_for(shape: str, steps: int, action: str) -> Task:
    """Return the task whose workflow is this graph."""
    chain = shape == CHAIN
    definition = {
        "name": "counting",
        "version": "1",
        "steps": [_step(place, action, chain=chain) for place in range(steps)],
        "execution": {"parallel_limit": MAX_AT_ONCE},
    }
    return Task(
        prompt="count",
        model_key="fast",
        budget=Budget.of(Profile.TASK),
        workflow=FrozenWorkflow(definition=definition, inputs={}),
    )


def _step(place: int, action: str, *, chain: bool) -> dict[str, Any]:
    before = f"s{place - 1}" if chain and place else ""
    if action == "transform":
        inputs: dict[str, Any] = {"value": f"{{{{ {before}.value + 1 }}}}" if before else 1}
    else:
        inputs = {"number": f"{{{{ {before}.value }}}}" if before else 0}
    return {"id": f"s{place}", "action": action, "inputs": inputs, "depends_on": [before] if before else []}


def steps_taken(payload: Any, *, chain: bool) -> int:
    """Count the steps, by the number that they have handed on or by what each of them gave."""
    numbers = [outputs["value"] for outputs in payload["outputs"].values()]
    return max(numbers) if chain else sum(numbers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", choices=ACTIONS)
    parser.add_argument(
        "--profile", default="", help="write cProfile statistics of the event loop's thread to this file"
    )
    arguments = parser.parse_args()
    serve(lambda folder: Fabric(folder, ACTIONS[arguments.steps]), arguments.profile)


if __name__ == "__main__":
    main()
