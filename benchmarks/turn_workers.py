"""Three ways to do the same job, each in a process of its own.

`floor` by hand with a log file, `fabric` as durable runs, `encrypted` as durable runs that are encrypted.

A worker reads one JSON command a line, `{"runs": 200, "at_once": 50, "steps": 10, "wait_ms": 0}`, and answers with what
it cost. `calls` lets the driver check that nobody wins by doing less.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from mock_model import DONE

SYSTEM = "You are a careful assistant. Use the tool for every sum, one call at a time, then say that you are done."
RunOne = Callable[[str], Awaitable[str]]
calls = 0


def add(a: int, b: int) -> int:
    """Add two integers."""
    global calls  # noqa: PLW0603 - the witness
    calls += 1
    return a + b


PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


async def floor(base_url: str, folder: Path) -> RunOne:
    """The aiohttp loop that one would write by hand, with every event a flushed JSON line."""
    import aiohttp

    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    tools = [{"type": "function", "function": {"name": "add", "description": add.__doc__, "parameters": PARAMETERS}}]
    log = (folder / "log.jsonl").open("a")

    def event(kind: str, **fields: Any) -> None:
        log.write(json.dumps({"ts": time.time(), "kind": kind, **fields}) + "\n")
        log.flush()

    async def run(prompt: str) -> str:
        messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
        while True:
            event("request", messages=len(messages))
            body = {"model": "mock", "messages": messages, "tools": tools}
            async with session.post(f"{base_url}/chat/completions", json=body) as response:
                message = (await response.json())["choices"][0]["message"]
            event("response", message=message)
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                arguments = json.loads(call["function"]["arguments"])
                event("tool_call", args=arguments)
                result = add(**arguments)
                event("tool_result", result=result)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})

    return run


async def fabric(base_url: str, folder: Path) -> RunOne:
    """The real engine and store: synchronous commits, hash chain, runlog.jsonl, run index."""
    return await fabric_with(base_url, folder, system=SYSTEM, add=add)


async def encrypted(base_url: str, folder: Path) -> RunOne:
    """The same, with every run encrypted; those have no runlog.jsonl."""
    return await fabric_with(base_url, folder, system=SYSTEM, add=add, encrypted=True)


async def fabric_with(
    base_url: str, folder: Path, *, system: str, add: Callable[[int, int], int], encrypted: bool = False
) -> RunOne:
    """The same with other instructions and another tool."""
    return (await open_fabric(base_url, folder, system=system, add=add, encrypted=encrypted)).run


class Opened(NamedTuple):
    """An engine and its store."""

    run: RunOne
    close: Callable[[], Awaitable[None]]


async def open_fabric(
    base_url: str,
    folder: Path,
    *,
    system: str = SYSTEM,
    add: Callable[[int, int], int] = add,
    encrypted: bool = False,
) -> Opened:
    """Open what `fabric_with` runs on, for a caller that closes it."""
    from agent_fabric.application.models.model_turn import ModelTurn
    from agent_fabric.application.packs.recruit import RecruitSpecialists
    from agent_fabric.application.runs.drive_run import DriveRun
    from agent_fabric.application.runs.execute_task import ExecuteTask
    from agent_fabric.application.runs.perform import Perform
    from agent_fabric.application.tools.invoke_tool import InvokeTool
    from agent_fabric.bootstrap.records import open_records
    from agent_fabric.config.defaults import default_config
    from agent_fabric.domain.ids import SpecialistId
    from agent_fabric.domain.models.messages import ModelSettings
    from agent_fabric.domain.packs.contents import FinishSpec
    from agent_fabric.domain.packs.recruitment import Specialist
    from agent_fabric.domain.runs.task import Budget, Profile, Task
    from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
    from agent_fabric.infrastructure.clock import RandomIds, SystemClock
    from agent_fabric.infrastructure.models.lazy_models import LazyModels
    from agent_fabric.infrastructure.models.model_http import environment_only
    from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
    from agent_fabric.testing.fakes import OneModel, PackBuilders, PermissivePolicy

    async def add_tool(args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG001 - as every tool
        return ToolResult(output={"result": add(args["a"], args["b"])})

    spec = ToolSpec(name="add", description=str(add.__doc__), parameters=PARAMETERS, effect=Effect.READS)
    finish = FinishSpec(parameters={"type": "object", "properties": {"summary": {"type": "string"}}})
    settings = ModelSettings(
        key="mock",
        backend="generic",
        base_url=base_url,
        model="mock",
        temperature=0.1,
        top_p=0.9,
        max_tokens=256,
        timeout_s=600,
        connect_timeout_s=10,
    )
    records, models = open_records(folder / ".fabric"), LazyModels(default_config(), environment_only)
    clock = SystemClock()
    registry = PackBuilders(
        {
            SpecialistId("adding"): lambda _: BaseSpecialistPack(
                system_prompt=system, tools=[(spec, add_tool)], finish=finish
            )
        }
    )
    perform = Perform(
        registry=registry,
        recruit=RecruitSpecialists([Specialist(specialist_id=SpecialistId("adding"), description="adds")], {}),
        models=OneModel(settings),
        model_turn=ModelTurn(models, clock),
        invoke_tool=InvokeTool(PermissivePolicy(), clock, 16_000),
    )
    execute = ExecuteTask(
        runs=records.runs,
        workspaces=records.layout,
        recruit=perform.recruit,
        drive=DriveRun(perform, clock),
        clock=clock,
        ids=RandomIds(),
        sandbox_level="none",
        policy_version="benchmark",
        fabric_version="benchmark",
    )
    budget = replace(Budget.of(Profile.TASK), max_steps=1_000)

    async def run(prompt: str) -> str:
        result = await execute(Task(prompt=prompt, model_key="mock", budget=budget, encrypted=encrypted))
        return str(result.payload.get("summary", result.error))

    async def close() -> None:
        await models.aclose()
        records.close()

    return Opened(run, close)


WORKERS = {"floor": floor, "fabric": fabric, "encrypted": encrypted}


async def measure(run: RunOne, command: Mapping[str, int]) -> dict[str, float]:
    """Do the runs, so many at once, and say what they cost."""
    global calls  # noqa: PLW0603 - the witness
    prompt = f"Add. [steps={command['steps']}][wait={command.get('wait_ms', 0)}]"
    todo = iter(range(command["runs"]))
    wrong = 0

    async def worker() -> None:
        nonlocal wrong
        for _ in todo:
            wrong += await run(prompt) != DONE

    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    calls = 0
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(command["at_once"])))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "turns": command["runs"] * (command["steps"] + 1),
        "calls": calls,
        "wrong": wrong,
        "grown_kb": _memory("VmHWM") - before,
    }


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=tuple(WORKERS))
    parser.add_argument("base_url")
    parser.add_argument("--profile", help="write cProfile statistics of all commands to this file")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8192), hard), hard))
    folder = Path(tempfile.mkdtemp(prefix="bench-turns-"))
    try:
        run = await WORKERS[arguments.which](arguments.base_url, folder)
        await measure(run, {"runs": 20, "at_once": 20, "steps": 1})  # warm
        if arguments.profile:
            import cProfile

            profile = cProfile.Profile(time.process_time)
            profile.enable()
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            sys.stdout.write(json.dumps(await measure(run, json.loads(line))) + "\n")
            sys.stdout.flush()
        if arguments.profile:
            profile.dump_stats(arguments.profile)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # thousands of open connections need no farewell


if __name__ == "__main__":
    asyncio.run(main())
