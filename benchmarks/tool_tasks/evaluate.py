"""Tasks of files and shell, done by agent-fabric with a real model, judged by what is on disk afterwards.

    cd benchmarks; python -m tool_tasks.evaluate --base-url http://127.0.0.1:8080/v1 --dialect schema
    cd benchmarks; python -m tool_tasks.evaluate --model fast

With `--base-url` the model is the one that an OpenAI-compatible server has; without, the embedded model of that name.
Each task is a run of its own with the engineering specialist, the temperature is 0, and nothing is told about the tasks
but what a person would type. `plain_loop.py` does the same without agent-fabric.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import LocalFabric, build_local
from agent_fabric.config.loader import read_config
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.events import Event, GuidanceGiven, ModelAnswered, ToolErred, ToolReturned
from agent_fabric.domain.ids import LaneId, RunId
from tool_tasks.sets import SETS
from tool_tasks.table import Outcome, chosen, show
from tool_tasks.tasks import ToolTask

MAX_STEPS = 12
MODEL_KEY = "evaluated"


class Talk:
    """EventSink that shows what the model and the tools say to each other."""

    wants_deltas = False

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:  # noqa: ARG002 - as every sink
        for event in events:
            match event.body:
                case ModelAnswered(tool_calls=calls, content=content):
                    for call in calls:
                        print(f"    {call.tool} {call.arguments}", file=sys.stderr, flush=True)
                    if not calls:
                        print(f"    {content!r}", file=sys.stderr, flush=True)
                case ToolReturned(result=result):
                    print(f"        {str(result)[:300]}", file=sys.stderr, flush=True)
                case ToolErred(error_message=message) | GuidanceGiven(message=message):
                    print(f"        ! {message[:300]}", file=sys.stderr, flush=True)
                case _:
                    pass

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        """Whole answers are shown."""

    def notice(self, run_id: RunId, text: str) -> None:  # noqa: ARG002 - as every sink
        print(f"    {text}", file=sys.stderr, flush=True)


def configuration(arguments: argparse.Namespace) -> FabricConfig:
    """Return the configuration of a fresh machine with the one model that is evaluated."""
    model: dict[str, Any] = {"temperature": 0, "max_tokens": 1200, "compact": not arguments.full_prompts}
    if arguments.base_url:
        model |= {"backend": "generic", "base_url": arguments.base_url, "model": arguments.model or "any"}
    else:
        model |= {"backend": "embedded", "model": arguments.model or None}
    if arguments.dialect:
        model["dialect"] = arguments.dialect
    overrides = {
        "models": {MODEL_KEY: model},
        "default_model_key": MODEL_KEY,
        "budget": {"max_steps": arguments.max_steps},
    }
    return read_config({}, overrides=overrides).config


async def do(task: ToolTask, fabric: LocalFabric, config: FabricConfig) -> Outcome:
    """Do one task."""
    workspaces: list[Path] = []

    def created(run_id: RunId) -> None:
        workspaces.append(Path(fabric.records.layout.workspace(run_id)))
        task.lay_out(workspaces[0])

    started = time.monotonic()
    result = await fabric.execute_task(
        task_from(config, task.prompt, pack="engineering", network_allowed=False), on_created=created
    )
    return Outcome(
        task=task.name,
        ok=task.done_in(workspaces[0]),
        steps=result.steps,
        seconds=time.monotonic() - started,
        prompt_tokens=result.usage.prompt_tokens,
        reused_tokens=result.usage.cached_tokens,
        completion_tokens=result.usage.completion_tokens,
        said=result.error.message if result.error else str(result.payload.get("summary", "")),
    )


async def evaluate(arguments: argparse.Namespace) -> list[Outcome]:
    """Do the tasks one after another."""
    config = configuration(arguments)
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        fabric = build_local(Path(folder) / ".fabric", config, sink=Talk() if arguments.verbose else None)
        try:
            for task in chosen(SETS[arguments.set], arguments.only):
                if arguments.verbose:
                    print(f"{task.name}: {task.prompt}", file=sys.stderr)
                outcomes.append(await do(task, fabric, config))
                if arguments.verbose:
                    print(f"    -> {outcomes[-1].said}", file=sys.stderr)
                if not arguments.json:
                    show(outcomes[-1:])
        finally:
            await fabric.aclose()
    return outcomes


def main() -> None:
    """Run the tasks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="an OpenAI-compatible server")
    parser.add_argument("--model", help="the model's name there, or an embedded model")
    parser.add_argument("--dialect", choices=["native", "schema", "text"], help="how the model calls tools")
    parser.add_argument("--full-prompts", action="store_true", help="the prompts for large models")
    parser.add_argument("--set", choices=list(SETS), default="everyday", help="which tasks")
    parser.add_argument("--only", default="", help="names of tasks, with commas")
    parser.add_argument("--max-steps", type=int, default=MAX_STEPS)
    parser.add_argument("--verbose", action="store_true", help="show what is said, on standard error")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    show(asyncio.run(evaluate(arguments)), as_json=arguments.json, whole=True)


if __name__ == "__main__":
    main()
