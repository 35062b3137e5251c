"""Leases and fences in every weather: one run, three processes that freeze and are cut off, commits without answers.

Every seed is a different history. What commands did is written down outside the log, as in the real chaos run.
"""

import asyncio
import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from agent_fabric.domain.errors import DriverConflict, RunHeld, StoreUnavailable
from agent_fabric.domain.events import RunInterrupted, RunResumed, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.runs.ledger import IN_DOUBT
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def
from agent_fabric.testing.workbench import Workbench, workbench
from effort import effort, report
from simulation.leased_world import RUN, TTL_S, Box, Database, LeasedRuns, Process, Rules, Timeline, now

HISTORIES = effort(200, 10_000)
STEPS = 8
PROCESSES = 3
STORM_S = 8 * TTL_S
CALM_S = 60 * TTL_S
FINISH = make_finish_tool_def({"summary": {"type": "string"}}, required=("summary",))


@dataclass
class History:
    """What a seed has led to."""

    seed: int
    rules: Rules
    wrong: list[str] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    takeovers: int = 0
    in_doubt: int = 0


def bench_of(process: Process, history: History) -> Workbench:
    """Return the real engine of one process."""

    async def work(args: Mapping[str, Any], _: ToolContext) -> ToolResult:
        await process.point()
        box = Box(process, process.held, int(args["step"]), now())
        history.boxes.append(box)
        running = asyncio.ensure_future(box.run(process.rng.choice((1, 2, 8, 50))))
        try:
            complete = await running
        finally:
            running.cancel()
        await process.point()
        return ToolResult(output={"complete": complete}, changed=True)

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        await asyncio.sleep(process.rng.uniform(0.05, 1.5))
        await process.point()
        step = sum(message.role is Role.ASSISTANT for message in messages)
        name, arguments = ("work", f'{{"step": {step}}}') if step < STEPS else ("finish_task", '{"summary": "done"}')
        call = ToolCallRequest(CallId(f"call_{step}"), name, arguments)
        return LLMResponse(content="", tool_calls=(call,), usage=Usage(10, 1))

    def pack(_: str) -> BaseSpecialistPack:
        spec = make_tool_def("work", "work", {"step": {"type": "integer"}}, effect=Effect.CHANGES_WORKSPACE)
        return BaseSpecialistPack(system_prompt="You are simulated.", tools=[(spec, work)], finish=FINISH)

    return workbench(pack, answer, runs=LeasedRuns(process))


async def drive(process: Process, history: History) -> None:
    """Claim the run whenever it is free, until it has ended."""
    bench, database = bench_of(process, history), process.database
    while not database.tables.settled:
        left = isinstance(database.tables.log[-1].body, RunInterrupted)
        with suppress(RunHeld, DriverConflict, StoreUnavailable):
            await bench.resume_run(RUN, by="person" if left else "server")
        await asyncio.sleep(process.rng.uniform(0.2, 2.0))
        await process.point()


async def storm(processes: Sequence[Process], database: Database, rng: random.Random) -> None:
    """Let things happen; afterwards all is well."""
    over = now() + STORM_S
    while now() < over:
        await asyncio.sleep(rng.expovariate(1 / 4.0))
        process, until = rng.choice(processes), now() + rng.uniform(0.1, 2.5 * TTL_S)
        match rng.choices(("freeze", "cut", "both", "database"), (5, 3, 1, 1))[0]:
            case "freeze":
                process.frozen_until = until
            case "cut":
                process.cut_until = until
            case "both":
                process.frozen_until = process.cut_until = until
            case _:
                database.down_until = now() + rng.uniform(0.1, 1.2 * TTL_S)


async def live(history: History) -> None:
    rng = random.Random(history.seed)
    database = Database(rng, history.wrong)
    processes = [Process(f"p{n}", database, rng, history.rules) for n in range(PROCESSES)]
    with suppress(RunHeld):
        await bench_of(processes[0], history).run()
    living = [asyncio.ensure_future(process.live()) for process in processes]
    raging = asyncio.ensure_future(storm(processes, database, rng))
    try:
        async with asyncio.timeout(STORM_S + CALM_S):
            await asyncio.gather(*(drive(process, history) for process in processes))
    except TimeoutError:
        history.wrong.append("the run has not ended")
    finally:
        for task in (*living, raging):
            task.cancel()
        await asyncio.gather(*living, raging, return_exceptions=True)
    examine(history, database)


def examine(history: History, database: Database) -> None:
    """Compare the log with what was done."""
    log, wrong = database.tables.log, history.wrong
    if [event.seq for event in log] != list(range(len(log))):
        wrong.append("the log has gaps or repeats")
    worked = sorted((box for box in history.boxes if box.ended), key=lambda box: box.began)
    wrong += [
        f"step {one.step} of {one.process.name} and step {other.step} of {other.process.name} at the same time"
        for one, other in itertools.pairwise(worked)
        if one.ended >= other.began
    ]
    bodies = [event.body for event in log]
    calls = {
        body.call_id: int(body.args["step"]) for body in bodies if isinstance(body, ToolCalled) and body.tool == "work"
    }
    ends = [body for body in bodies if isinstance(body, ToolReturned | ToolErred) and body.call_id in calls]
    if sorted(end.call_id for end in ends) != sorted(calls):
        wrong.append("not every call has one end")
    for end in ends:
        boxes = [box for box in worked if box.step == calls[end.call_id]]
        if len(boxes) > 1:
            wrong.append(f"step {calls[end.call_id]} was done {len(boxes)} times")
        if isinstance(end, ToolReturned) and end.result["complete"] and not (boxes and boxes[0].complete):
            wrong.append(f"step {calls[end.call_id]} is finished in the log, and not in the world")
        history.in_doubt += isinstance(end, ToolErred) and end.error_type == IN_DOUBT
    history.takeovers += sum(isinstance(event.body, RunResumed) and not event.body.handed_over for event in log)


def histories(seeds: Sequence[int], rules: Rules) -> list[History]:
    found = []
    for seed in seeds:
        history = History(seed, rules)
        with asyncio.Runner(loop_factory=Timeline) as runner:
            runner.run(live(history))
        found.append(history)
    return found


@pytest.mark.proves("SC-5", "SC-6", "SC-7")
def test_in_any_weather_a_run_has_one_driver_and_nothing_is_lost_or_done_twice() -> None:
    first = random.randrange(2**32)
    print(f"seeds from {first}")
    found = histories(range(first, first + HISTORIES), Rules())
    assert {history.seed: history.wrong for history in found if history.wrong} == {}
    takeovers, doubts = sum(history.takeovers for history in found), sum(history.in_doubt for history in found)
    print(f"{takeovers} takeovers, {doubts} calls in doubt")
    report("histories of leases simulated", HISTORIES)
    assert takeovers > HISTORIES / 4
    assert doubts


@pytest.mark.parametrize(
    ("without", "seen"),
    [
        (Rules(fence=False), "appended under epoch"),
        (Rules(guard=False), "at the same time"),
        (Rules(settle=False, fence=False), "gaps or repeats"),
        (Rules(margin=-0.5), "at the same time"),
    ],
    ids=["fence", "guard", "settling", "margin"],
)
def test_without_one_of_its_parts_the_protocol_fails_here(without: Rules, seen: str) -> None:
    for history in map(partial(_history, rules=without), range(60)):
        if any(seen in each for each in history.wrong):
            return
    pytest.fail(f"no history shows it: {seen}")


def _history(seed: int, rules: Rules) -> History:
    return histories([seed], rules)[0]
